// A page that asks first. What follows a vote is held back until the reader has committed to a number.
//
// `tools/asking.py` writes the questions: .rpc-ask (a number or a curve), .rpc-quiz, and .rpc-compared,
// the numbers of the run that follows. What the reader says stays in this browser, and can be saved as
// a file that `course.py class collect` reads. Without this script a page shows everything.
"use strict";
{
  const STORE = "rpc-throughput/answers";
  const read = () => { try { return JSON.parse(localStorage.getItem(STORE)) || {}; } catch { return {}; } };
  const answers = { predictions: {}, choices: {}, order: Math.floor(1e6 * Math.random()), ...read() };
  const keep = () => { try { localStorage.setItem(STORE, JSON.stringify(answers)); } catch { /* a private window */ } };
  const format = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });
  const make = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };
  // 2,450 and 2.5 and 2,5: a comma before three digits is for thousands, any other is a point.
  const number = (text) => {
    const plain = text.trim().replace(/[\s_]/g, "").replace(/,(?=\d{3}(\D|$))/g, "").replace(",", ".");
    return plain && Number.isFinite(Number(plain)) ? Number(plain) : null;
  };

  // 1,500 to 2,500: an interval; null for what is none.
  const interval = (text) => {
    const ends = number(text) === null && text.match(/^(.+?)\s*(?:to|…|\.\.+|[–—-])\s*(.+)$/);
    const [low, high] = ends ? [number(ends[1]), number(ends[2])] : [];
    return low > 0 && high > low ? [low, high] : null;
  };
  const asSaid = (made, unit) => made.interval ? `${made.interval.map(format).join(" to ")} ${unit}, with 90 %` : `${format(made.value)} ${unit}`;

  // ---- which part of the page is held back ----------------------------------------------------

  // The pieces of the page in order: the sections of headings are opened, a cell is one piece.
  const pieces = (parent) => [...parent.children].flatMap((each) => (each.matches("section:not(.slide)") ? pieces(each) : [each]));
  let gates = [], bar, more;
  function gather(root) {
    let before = [];
    for (const piece of pieces(root)) {
      piece.rpcAfter = [...before];
      const votes = [...piece.querySelectorAll(".rpc-ask")];
      if (votes.length) before = [...before, ...votes];
      gates.push(...votes);
    }
  }
  const passed = (vote) => vote.rpcSkipped || answers.predictions[vote.rpcData.id];
  function unfold(root, arriving) {
    let last;
    for (const piece of pieces(root)) {
      if (piece === more) continue;
      const held = !(piece.rpcAfter || []).every(passed);
      if (piece.classList.contains("rpc-held") && !held && arriving) piece.classList.add("rpc-arrived");
      piece.classList.toggle("rpc-held", held);
      if (!held) last = piece;
    }
    const open = gates.filter((vote) => !passed(vote));
    more.hidden = !open.length;
    if (open.length && last) last.after(more);
    more.textContent = open.length ? `The page goes on when you have committed to ${open.length > 1 && open[1].rpcPiece === open[0].rpcPiece ? "these numbers" : "a number"}.` : "";
    const said = gates.filter((vote) => answers.predictions[vote.rpcData.id]).length;
    bar.firstChild.textContent = gates.length
      ? `This page asks first. You have committed to ${said} of its ${gates.length} numbers.`
      : "Your answers stay in this browser.";
    for (const each of document.querySelectorAll(".rpc-compared")) compared(each);
    for (const each of document.querySelectorAll(".rpc-replay")) each.replay?.say(answers.predictions);
    dispatchEvent(new Event("resize")); // a figure that was hidden has no size yet
  }

  // ---- a vote -----------------------------------------------------------------------------------

  function vote(element, root) {
    const data = element.rpcData, before = answers.predictions[data.id];
    const said = make("p", { class: "rpc-said", "aria-live": "polite", tabindex: "-1" });
    const commit = (value, { curve, sure } = {}) => {
      answers.predictions[data.id] = { value, unit: data.unit, at: Date.now() / 1e3, measured: measuredOf(data.id), ...(sure ? { interval: sure } : {}), ...(curve ? { curve, dots: comparisonOf(data.id)?.rpcData.curve?.dots ?? [] } : {}) };
      keep();
      locked();
      said.focus({ preventScroll: true }); // the field that had it is disabled now
      unfold(root, true);
    };
    const locked = () => {
      element.querySelectorAll("input, button").forEach((each) => { each.disabled = true; });
      element.querySelectorAll(".rpc-row button, .rpc-how").forEach((each) => each.remove());
      said.textContent = data.curve ? "✔ Your line is kept." : `✔ You said ${asSaid(answers.predictions[data.id], data.unit)}.`;
    };
    const skip = make("button", { type: "button", class: "rpc-button rpc-quiet" }, "Show without a number");
    skip.onclick = () => { element.rpcSkipped = true; said.textContent = "○ Not predicted."; unfold(root, true); };
    element.textContent = "";
    if (data.curve) {
      const drawing = make("div"), ready = make("button", { type: "button", class: "rpc-button" }, "Commit this line");
      let heights = null, shown;
      const facts = { ...data.curve, locked: Boolean(before), ys: before ? before.curve.map(([, y]) => y) : [], said: "" };
      shown = showCurve(drawing, facts, (ys) => { heights = ys; shown.answered({ ...facts, ys, said: "The line is complete." }); });
      ready.onclick = () => {
        if (!heights) { said.textContent = "Not yet: draw the line over the whole width."; return; }
        shown.answered({ ...facts, ys: heights, locked: true, said: "" });
        commit(heights.at(-1), { curve: data.curve.xs.map((x, place) => [x, heights[place]]) });
      };
      element.append(drawing, make("div", { class: "rpc-row" }, ready, skip), said);
    } else {
      const id = `vote-${data.id}`, field = make("input", { id, type: "text", inputmode: "decimal", autocomplete: "off", "aria-describedby": `${id}-how` });
      const how = make("p", { class: "rpc-how", id: `${id}-how` }, "A number, or an interval that you are 90 % sure of, such as 5 to 50.");
      const form = make("form", {}, make("label", { for: id }, `Predict: ${data.text}`),
        make("div", { class: "rpc-row" }, field, make("span", {}, data.unit), make("button", { class: "rpc-button" }, "Commit"), skip));
      form.onsubmit = (event) => {
        event.preventDefault();
        const sure = interval(field.value), value = sure ? Math.sqrt(sure[0] * sure[1]) : number(field.value);
        const share = data.unit.startsWith("of the ");
        if (!(value > 0) || (share && (sure?.[1] ?? value) > 1)) {
          said.textContent = share ? "A share is a number from 0 to 1, such as 0.25." : "Type a number above 0, such as 12.5.";
          field.focus();
          return;
        }
        commit(value, { sure });
      };
      if (before) field.value = before.interval ? before.interval.join(" to ") : before.value;
      element.append(form, how, said);
    }
    if (before) locked();
  }

  // ---- the run beside the reader's number ----------------------------------------------------------

  const comparisonOf = (id) => [...document.querySelectorAll(".rpc-compared")].find((each) => each.rpcData.question_id === id);
  const measuredOf = (id) => comparisonOf(id)?.rpcData.measured ?? null;
  function compared(element) {
    const { question_id: id, unit, model, measured, bands, curve, mistakes, near, far_off: farOff } = element.rpcData;
    const yours = answers.predictions[id];
    if (element.rpcShown === Boolean(yours) || element.closest(".rpc-held")) return;
    element.rpcShown = Boolean(yours);
    element.textContent = "";
    const factor = yours && measured > 0 ? Math.max(yours.value / measured, measured / yours.value) : null;
    const verdict = factor === null ? "Not predicted." : bands.find(([most]) => most === null || factor <= most).reduce((most, words) => (most === null && farOff) || words);
    const same = (value) => value > 0 && Math.abs(yours.value / value - 1) <= near;
    const mistake = factor && !same(model) && !same(measured) && mistakes.find(([wrong]) => same(wrong));
    if (curve) {
      const drawing = make("div");
      element.append(drawing);
      showCurve(drawing, { ...curve, locked: true, ys: yours?.curve ? yours.curve.map(([, y]) => y) : [], said: "" });
      return;
    }
    const off = factor > 1.005 ? ` (${format(factor)} × too ${yours.value > measured ? "high" : "low"})` : "";
    element.append(make("p", { class: "rpc-said" }, make("b", {}, `${verdict[0].toUpperCase()}${verdict.slice(1)}`), off));
    if (mistake) {
      const named = make("p", { class: "rpc-said" });
      named.innerHTML = `${format(yours.value)}: ${mistake[1]}`;
      element.append(named);
    }
    const sure = yours?.interval;
    if (sure && measured !== null) {
      const holds = sure[0] <= measured && measured <= sure[1] ? "holds" : "does not hold";
      element.append(make("p", { class: "rpc-said" }, `Your interval, ${sure.map(format).join(" to ")}, ${holds} ${format(measured)}.`));
    }
    element.append(line({ you: yours?.value ?? null, "the model": model, measured }, unit, sure));
  }
  // The numbers on one axis; from a factor of 6 on, each factor takes the same width.
  function line(values, unit, sure) {
    const given = Object.entries(values).filter(([, value]) => value > 0), all = [...given.map(([, value]) => value), ...(sure ?? [])];
    const low = Math.min(...all), high = Math.max(...all), log = high > 6 * low, W = Math.min(560, document.documentElement.clientWidth - 60), H = 30 + 24 * given.length;
    const x = (value) => 20 + (W - 160) * (log ? Math.log((2 * value) / low) / Math.log((4 * high) / low) : value / (1.1 * high));
    const colours = { you: "#d55e00", "the model": "#888", measured: "#0072b2" };
    const marks = given.map(([name, value], row) => {
      const y = 14 + 24 * row, band = name === "you" && sure, at = x(band ? sure[1] : value), from = band ? x(sure[0]) : 20;
      const words = band ? sure.map(format).join(" to ") : format(value);
      return `<path d="M${from.toFixed(1)},${y} H${at.toFixed(1)}" stroke="${colours[name]}" stroke-width="${name === "measured" ? 9 : 5}" stroke-opacity="0.85"${name === "the model" ? ' stroke-dasharray="6 4"' : ""}/>` +
        `<text x="${(at + 8).toFixed(1)}" y="${y + 5}">${name} ${words}</text>`;
    });
    const words = given.map(([name, value]) => `${name} ${format(value)} ${unit}`).join(", ");
    const holder = make("div");
    holder.innerHTML = `<svg viewBox="0 0 ${W} ${H}" width="${W}" role="img"><path d="M20,2 V${H - 24}" stroke="currentColor" stroke-opacity="0.4"/>${marks.join("")}<text x="20" y="${H - 6}"></text></svg>`;
    holder.firstChild.setAttribute("aria-label", words);
    holder.querySelector("text:last-of-type").textContent = `${unit}${log ? "; each factor takes the same width" : ""}`;
    return holder.firstChild;
  }

  // ---- a quiz ----------------------------------------------------------------------------------------

  function quiz(element) {
    const { id, text, options } = element.rpcData, first = () => answers.choices[id]?.choice;
    const said = make("p", { class: "rpc-said", "aria-live": "polite" });
    const group = make("fieldset"), legend = make("legend");
    legend.innerHTML = text;
    group.append(legend);
    const explain = (option) => {
      const later = first() !== option.letter ? " (Your first choice is the one that counts.)" : "";
      said.innerHTML = `<b>${option.right ? "✔ Yes." : "✘ No."}</b> ${option.why}`;
      said.append(later);
    };
    // In an order of this reader's own: no letter is the one that is usually right.
    const rank = (option) => [...`${answers.order} ${id} ${option.letter}`].reduce((sum, each) => (31 * sum + each.codePointAt(0)) % 1000003, 7) * 7919 % 1009;
    for (const option of [...options].sort((a, b) => rank(a) - rank(b))) {
      const button = make("input", { type: "radio", name: `quiz-${id}`, value: option.letter });
      const label = make("label", {}, button, " "), words = make("span");
      words.innerHTML = option.text;
      label.append(words);
      button.onchange = () => {
        if (!first()) { answers.choices[id] = { choice: option.letter, at: Date.now() / 1e3 }; keep(); }
        explain(option);
      };
      button.checked = first() === option.letter;
      group.append(label);
    }
    element.textContent = "";
    element.append(group, said);
    const before = options.find((each) => each.letter === first());
    if (before) explain(before);
  }

  // ---- the page ----------------------------------------------------------------------------------

  function save() {
    const file = new Blob([JSON.stringify({ course: "rpc-throughput", answers: 1, ...answers }, null, 1)], { type: "application/json" });
    const link = make("a", { href: URL.createObjectURL(file), download: "my-numbers.json" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1e3);
  }
  function start(root) {
    const of = (kind) => [...root.querySelectorAll(`.rpc-${kind}`)].map((each) => { each.rpcData = JSON.parse(each.dataset[kind]); return each; });
    const [votes, quizzes] = [of("ask"), of("quiz")];
    of("compared");
    if (!votes.length && !quizzes.length) return;
    const saving = make("button", { type: "button", class: "rpc-button rpc-quiet", title: "a file for your teacher, or for another browser" }, "Save my numbers");
    saving.onclick = save;
    const again = make("button", { type: "button", class: "rpc-button rpc-quiet" }, "Forget this page");
    again.onclick = () => {
      const count = [...votes.filter((each) => answers.predictions[each.rpcData.id]), ...quizzes.filter((each) => answers.choices[each.rpcData.id])].length;
      if (count && !confirm(`Delete your ${count === 1 ? "answer" : `${count} answers`} on this page? "Save my numbers" keeps them in a file.`)) return;
      for (const each of votes) delete answers.predictions[each.rpcData.id];
      for (const each of quizzes) delete answers.choices[each.rpcData.id];
      keep();
      location.reload();
    };
    const all = make("button", { type: "button", class: "rpc-button rpc-quiet" }, "Show all");
    all.onclick = () => { for (const each of votes) each.rpcSkipped = true; all.remove(); saving.focus(); unfold(root, false); };
    bar = make("div", { class: "rpc-bar" }, make("span"), all, saving, again);
    more = make("p", { class: "rpc-more" });
    gather(root);
    const ordered = pieces(root);
    gates.forEach((each) => { each.rpcPiece = ordered.find((piece) => piece.contains(each)); });
    (root.querySelector("h1")?.closest(".jp-Cell") || root.querySelector("h1") || root.firstElementChild).after(bar);
    votes.forEach((each) => vote(each, root));
    quizzes.forEach(quiz);
    unfold(root, false);
    // A link to a place that is held back leads to the vote before it.
    const lead = () => {
      const name = location.hash.slice(1), target = name && (document.getElementById(name) || document.getElementById(decodeURIComponent(name)));
      const hidden = target && (target.closest(".rpc-held") || target.querySelector(":scope > .rpc-held"));
      const open = gates.find((each) => !passed(each));
      if (hidden && open) { open.scrollIntoView({ block: "center" }); open.querySelector("input, [tabindex], button")?.focus({ preventScroll: true }); }
    };
    addEventListener("hashchange", lead);
    lead();
  }
  const begin = () => {
    const root = document.querySelector("article[role=main], article, main");
    try { if (root) start(root); } finally { document.documentElement.classList.remove("asks-wait"); }
  };
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", begin);
  else begin();
}
