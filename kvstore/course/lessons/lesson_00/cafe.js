// A café: each guest is a bar from coming to leaving. A line that is dragged counts the bars it crosses.
//
// showCafe(element): the guests come `every` minutes, and stay for `stay` minutes on average. Each
// stays a little shorter or longer, so they do not leave in the order in which they came.
function showCafe(root) {
  "use strict";
  const W = 720, H = 300, LEFT = 16, RIGHT = 16, TOP = 26, BOTTOM = 34, UNTIL = 120; // minutes
  const facts = { every: 4, stay: 20, at: 58 };
  const make = (tag, attributes, text) => {
    const svgTag = ["svg", "line", "rect", "text", "g"].includes(tag);
    const made = svgTag ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  root.textContent = "";
  root.style.font = "14px system-ui, sans-serif";
  root.setAttribute("data-lm-suppress-shortcuts", "true"); // the arrow keys are ours, not JupyterLab's
  const svg = make("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "The guests of a café as bars over time" });
  svg.style.cssText = "display: block; width: 100%; max-width: 760px; touch-action: none; cursor: ew-resize";
  const bars = make("g", {}), axis = make("g", {});
  const line = make("line", { y1: TOP - 6, y2: H - BOTTOM, stroke: "#d55e00", "stroke-width": 3 });
  const count = make("text", { y: 16, "text-anchor": "middle", fill: "currentColor", "font-size": 15, "font-weight": 600 });
  svg.append(axis, bars, line, count);
  const said = make("div", { "aria-live": "polite", "data-cafe": "said" });
  const form = make("div", {});
  form.style.cssText = "display: flex; gap: 18px; flex-wrap: wrap; align-items: center";
  const slider = (name, label, least, most, step) => {
    const holder = make("label", {}, `${label} `);
    const input = make("input", { type: "range", min: least, max: most, step, value: facts[name], "aria-label": label });
    input.style.verticalAlign = "middle";
    input.oninput = () => { facts[name] = Number(input.value); show(); };
    holder.append(input);
    form.append(holder);
    return input;
  };
  slider("every", "minutes between guests", 2, 10, 1);
  slider("stay", "minutes inside", 5, 40, 5);
  const at = slider("at", "look at minute", 0, UNTIL, 0.5);
  root.append(svg, form, said);

  const px = (minute) => LEFT + ((W - LEFT - RIGHT) * minute) / UNTIL;
  // The guests: the first ones came before the picture begins, so that the café is in its steady state.
  function guests() {
    const found = [];
    for (let number = 0, comes = -60; comes < UNTIL; number++, comes = -60 + number * facts.every)
      found.push([comes, comes + facts.stay * [1, 0.6, 1.4, 0.8, 1.2][number % 5]]);
    return found;
  }
  const inside = (all, minute) => all.filter(([comes, leaves]) => comes <= minute && minute < leaves);

  function show() {
    const all = guests(), crossed = inside(all, facts.at);
    const seen = all.filter(([, leaves]) => leaves > 0);
    const high = (H - TOP - BOTTOM) / seen.length;
    bars.textContent = axis.textContent = "";
    for (let minute = 0; minute <= UNTIL; minute += 20) {
      axis.append(make("line", { x1: px(minute), x2: px(minute), y1: TOP, y2: H - BOTTOM, stroke: "currentColor", "stroke-opacity": 0.15 }));
      axis.append(make("text", { x: px(minute), y: H - 14, "text-anchor": minute < UNTIL ? "middle" : "end", fill: "currentColor", "font-size": 15 }, minute ? `${minute} min` : "0"));
    }
    seen.forEach((guest, row) => bars.append(make("rect", {
      x: px(Math.max(0, guest[0])), y: TOP + row * high + 0.15 * high, height: 0.7 * high, rx: 1.5,
      width: px(Math.min(UNTIL, guest[1])) - px(Math.max(0, guest[0])),
      fill: "#0072b2", "fill-opacity": crossed.includes(guest) ? 1 : 0.35,
    })));
    line.setAttribute("x1", px(facts.at)); line.setAttribute("x2", px(facts.at));
    count.setAttribute("x", Math.min(W - 50, Math.max(50, px(facts.at))));
    count.textContent = `${crossed.length} inside`;
    at.value = facts.at;
    let sum = 0, looks = 0;
    for (let minute = 0.25; minute < UNTIL; minute += 0.5, looks++) sum += inside(all, minute).length;
    const number = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });
    said.textContent = `The line crosses ${crossed.length} bars. On average over the two hours it crosses ` +
      `${number(sum / looks)}: ${facts.stay} min inside / ${facts.every} min between guests = ${number(facts.stay / facts.every)}.`;
  }
  let dragged = false;
  const move = (event) => {
    const box = svg.getBoundingClientRect();
    const place = ((event.clientX - box.left) * W) / box.width;
    facts.at = Math.min(UNTIL, Math.max(0, Math.round((2 * UNTIL * (place - LEFT)) / (W - LEFT - RIGHT)) / 2));
    show();
  };
  svg.addEventListener("pointerdown", (event) => { dragged = true; svg.setPointerCapture(event.pointerId); move(event); event.preventDefault(); });
  svg.addEventListener("pointermove", (event) => { if (dragged) move(event); });
  svg.addEventListener("pointerup", () => { dragged = false; });
  svg.addEventListener("pointercancel", () => { dragged = false; });
  root.cafe = { guests };
  show();
}
