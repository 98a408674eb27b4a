// A curve that the learner draws before the runs, and the measured dots that land on it.
//
// showCurve(element, facts, changed): `facts` is what `kvstore/course/curves.py` writes. `changed`
// is called with the heights, one for each x, when two points are drawn and after each change: the others lie on that line.
// Without it, and where `facts.locked`, the picture only shows.
function showCurve(root, facts, changed) {
  "use strict";
  const YOURS = "#d55e00", MEASURED = "#0072b2", H = 360;
  const W = Math.min(720, Math.max(320, innerWidth - 70)); // on a phone the text keeps its size
  const LEFT = W < 500 ? 64 : 84, RIGHT = 18, TOP = 36, BOTTOM = 52;
  const plotW = W - LEFT - RIGHT, plotH = H - TOP - BOTTOM, { xs, log } = facts;
  const [fromX, toX] = log ? [xs[0], xs.at(-1)] : [0, xs.at(-1)];
  const fromY = log ? facts.least : 0;
  let ys = facts.ys.length ? [...facts.ys] : xs.map(() => null), locked = facts.locked || !changed;

  const scale = (value, low, high) => (log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
  const unscale = (share, low, high) => (log ? low * (high / low) ** share : low + share * (high - low));
  const px = (x) => LEFT + plotW * scale(x, fromX, toX);
  const py = (y) => TOP + plotH * (1 - Math.min(1, Math.max(0, scale(Math.max(y, 1e-12), fromY, facts.most))));
  const smallest = log ? facts.least : facts.most / 1000; // a prediction is above zero
  const heightAt = (place) => Math.min(facts.most, Math.max(smallest, unscale(1 - (place - TOP) / plotH, fromY, facts.most)));
  const format = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });

  // ---- the page -----------------------------------------------------------------------------------

  const element = (tag, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  root.textContent = "";
  root.style.font = "14px system-ui, sans-serif";
  root.setAttribute("data-lm-suppress-shortcuts", "true"); // the arrow keys are ours, not JupyterLab's
  const title = document.createElement("div");
  title.style.fontWeight = "600";
  title.textContent = facts.text;
  const svg = element("svg", { viewBox: `0 0 ${W} ${H}`, width: "100%", role: "group", "aria-label": `${facts.text} ${facts.unit} over ${facts.over}` });
  svg.style.cssText = "display: block; max-width: 760px; touch-action: none";
  const said = document.createElement("div");
  said.setAttribute("aria-live", "polite");
  said.setAttribute("data-curve", "said");
  root.append(title, svg, said);

  function axes() {
    const ink = { stroke: "currentColor", "stroke-opacity": 0.15 }, text = { fill: "currentColor", "font-size": 13 };
    for (const y of ticks(fromY, facts.most, 5)) {
      svg.append(element("line", { x1: LEFT, x2: W - RIGHT, y1: py(y), y2: py(y), ...ink }));
      svg.append(element("text", { x: LEFT - 8, y: py(y) + 4, "text-anchor": "end", ...text }, format(y)));
    }
    for (const x of log ? xs : ticks(0, toX, 8)) {
      svg.append(element("line", { x1: px(x), x2: px(x), y1: TOP, y2: TOP + plotH, ...ink }));
      svg.append(element("text", { x: px(x), y: TOP + plotH + 18, "text-anchor": "middle", ...text }, format(x)));
    }
    svg.append(element("text", { x: LEFT + plotW / 2, y: H - 8, "text-anchor": "middle", ...text }, facts.over));
    svg.append(element("text", { x: LEFT, y: 18, "text-anchor": "middle", ...text }, facts.unit)); // above the numbers, however long they are
  }
  function ticks(low, high, about) {
    if (log) {
      const found = [];
      for (let decade = 10 ** Math.ceil(Math.log10(low)); decade <= high * 1.001; decade *= 10) found.push(decade);
      return found;
    }
    const raw = (high - low) / about, ten = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((each) => each * ten).find((each) => each >= raw);
    return Array.from({ length: Math.floor(high / step + 1e-9) + 1 }, (_, number) => number * step);
  }

  axes();
  const others = element("g", {});
  const line = element("path", { fill: "none", stroke: YOURS, "stroke-width": 3 });
  const dots = element("g", {}), handles = element("g", {});
  svg.append(others, line, dots, handles);
  const points = xs.map((x, number) => {
    const handle = element("circle", {
      r: 8, tabindex: 0, role: "slider", "aria-label": `${facts.over}: ${format(x)}`,
      "aria-valuemin": smallest, "aria-valuemax": facts.most, "stroke-width": 2.5, stroke: YOURS,
    });
    handle.addEventListener("keydown", (event) => key(event, number));
    handles.append(handle);
    return handle;
  });

  const level = (number) => ys[number] ?? unscale(0.5, fromY, facts.most); // where a point stands that was not moved
  function show() {
    const set = ys.map((y, number) => [y, number]).filter(([y]) => y !== null);
    line.setAttribute("d", set.map(([y, number], place) => `${place ? "L" : "M"}${px(xs[number])} ${py(y)}`).join(""));
    points.forEach((handle, number) => {
      handle.setAttribute("cx", px(xs[number]));
      handle.setAttribute("cy", py(level(number)));
      handle.setAttribute("fill", ys[number] === null ? "none" : YOURS);
      handle.setAttribute("stroke-dasharray", ys[number] === null ? "3 3" : "none");
      handle.setAttribute("aria-valuenow", level(number));
      handle.setAttribute("aria-valuetext", ys[number] === null ? "not drawn yet" : `${format(ys[number])} ${facts.unit}`);
      handle.style.cursor = locked ? "default" : "ns-resize";
      handle.style.display = locked && ys[number] === null ? "none" : "";
    });
    const missing = ys.filter((y) => y === null).length;
    if (!locked && missing)
      say(missing === ys.length ? "Draw the line with the mouse, from left to right. By keyboard: Tab to a point, then ↑ and ↓." : `Not kept yet: ${missing} of ${ys.length} points are left.`, missing < ys.length);
  }
  const say = (text, warning = false) => {
    said.textContent = text;
    said.style.color = warning ? `color-mix(in srgb, ${YOURS} 75%, currentcolor)` : "";
  };
  // The whole line: straight between two points that were drawn, level beyond the first and the last.
  function whole() {
    const set = ys.map((y, number) => number).filter((number) => ys[number] !== null);
    return ys.map((y, number) => {
      const before = set.findLast((each) => each <= number) ?? set[0], after = set.find((each) => each >= number) ?? set.at(-1);
      if (before === after) return ys[before];
      const share = scale(xs[number], xs[before], xs[after]);
      return Number(unscale(share, ys[before], ys[after]).toPrecision(3));
    });
  }

  // ---- what was measured --------------------------------------------------------------------------

  function results() {
    others.textContent = dots.textContent = "";
    if (facts.model.length)
      others.append(element("path", {
        d: facts.model.map(([x, y], place) => `${place ? "L" : "M"}${px(x)} ${py(y)}`).join(""),
        fill: "none", stroke: "currentColor", "stroke-opacity": 0.55, "stroke-width": 2, "stroke-dasharray": "7 5",
      }));
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    facts.dots.forEach(([x, y], number) => {
      const dot = element("circle", { cx: px(x), cy: py(y), r: 7, fill: MEASURED, stroke: "white", "stroke-width": 1.5, "data-x": x, "data-y": y });
      if (!still) // it falls from the top, one after the other
        dot.animate([{ transform: `translateY(${TOP - py(y)}px)`, opacity: 0 }, { transform: "none", opacity: 1 }],
          { duration: 700, delay: 150 * number, easing: "ease-in", fill: "backwards" });
      dots.append(dot);
    });
    const names = [[facts.ys.length ? "your line" : "", YOURS], [facts.model.length ? "the model (dashed)" : "", "currentColor"], [facts.dots.length ? "measured" : "", MEASURED]];
    key_.textContent = "";
    for (const [name, colour] of names.filter(([name]) => name && facts.dots.length)) {
      const entry = document.createElement("span");
      entry.textContent = `● ${name}`;
      entry.style.color = colour === "currentColor" ? "" : `color-mix(in srgb, ${colour} 75%, currentcolor)`;
      key_.append(entry);
    }
  }
  const key_ = document.createElement("div");
  key_.style.cssText = "display: flex; flex-wrap: wrap; gap: 0 1.5em";
  root.insertBefore(key_, svg);

  // ---- drawing ------------------------------------------------------------------------------------

  let waiting, extended = false;
  function commit() {
    show();
    if (ys.filter((y) => y !== null).length < Math.min(2, ys.length)) return; // one point is no line
    extended = ys.includes(null);
    say("Keeping your line …");
    clearTimeout(waiting);
    waiting = setTimeout(() => say("The kernel does not answer, so this line is not kept: run the cell again.", true), 5000);
    changed(whole());
  }
  function set(number, y) { ys[number] = Number(y.toPrecision(3)); }

  function key(event, number) {
    const part = event.shiftKey ? 0.1 : 0.02, now = scale(Math.max(level(number), 1e-12), fromY, facts.most);
    const moved = { ArrowUp: now + part, ArrowDown: now - part, PageUp: now + 0.1, PageDown: now - 0.1, Home: 0, End: 1 }[event.key];
    const next = { ArrowRight: number + 1, ArrowLeft: number - 1 }[event.key];
    if (moved === undefined && next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    if (next !== undefined) { points[next]?.focus(); return; }
    if (locked) return;
    set(number, Math.max(smallest, unscale(Math.min(1, Math.max(0, moved)), fromY, facts.most)));
    commit();
  }

  let before = null;
  const inPlot = (event) => {
    const box = svg.getBoundingClientRect(), shrink = W / box.width;
    return [(event.clientX - box.left) * shrink, (event.clientY - box.top) * shrink];
  };
  svg.addEventListener("pointerdown", (event) => {
    if (locked) return;
    const [x, y] = before = inPlot(event);
    const near = xs.map((each, number) => [Math.abs(px(each) - x), number]).sort((a, b) => a[0] - b[0])[0][1];
    set(near, heightAt(y));
    points[near].focus({ preventScroll: true });
    svg.setPointerCapture(event.pointerId);
    event.preventDefault();
    show();
  });
  svg.addEventListener("pointermove", (event) => {
    if (!before) return;
    const [x, y] = inPlot(event), [x0, y0] = before, slack = 6; // a point is met a little early, too
    xs.forEach((each, number) => {
      const place = px(each);
      if (place < Math.min(x, x0) - slack || place > Math.max(x, x0) + slack) return;
      const share = Math.abs(x - x0) < 1 ? 1 : Math.min(1, Math.max(0, (place - x0) / (x - x0)));
      set(number, heightAt(y0 + share * (y - y0)));
    });
    before = [x, y];
    show();
  });
  const release = () => { if (before) { before = null; commit(); } };
  svg.addEventListener("pointerup", release);
  svg.addEventListener("pointercancel", release);

  show();
  results();
  say(facts.said);
  if (!facts.said) show();
  return {
    // What Python says of the line that it was given.
    answered(now) {
      clearTimeout(waiting);
      facts = now;
      if (now.ys.length) ys = [...now.ys];
      else if (now.locked) ys = xs.map(() => null);
      locked = now.locked;
      show();
      say(extended && !locked ? `${now.said} Where you did not draw, it was extended.` : now.said);
    },
  };
}
