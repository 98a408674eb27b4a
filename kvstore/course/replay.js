// A replay of measured runs: each dot is a call, and stands where that call was at time t.
//
// showReplay(element, panels): each panel is one run, as `kvstore/course/replays.py` writes it. All
// panels share one playhead. A call's `edges` are the times at which it enters each step of `path`;
// the last edge is its end. So the same rule places a call here and counts it in Python.
function showReplay(root, panels) {
  "use strict";
  const KINDS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"];
  const FAILED = "#d03030", LIMIT = "#d55e00", FONT = "system-ui, sans-serif";
  const SPEEDS = [[1, "real time"], [0.2, "5 × slower"], [0.05, "20 × slower"], [0.01, "100 × slower"]];
  const WIDE = 1100, MOST_ZOOM = 1.7; // a wider page shows everything larger
  const CHART_H = 50, PAD = 12, GAP = 14;
  // On a slide it is larger still. Several runs then have numbers in place of their strips.
  const slideWide = () => parseFloat(getComputedStyle(root).getPropertyValue("--replay-wide")) || 0;
  const plain = () => panels.length > 1 && slideWide() > 0;
  const NARROW = 620; // on a phone the stations stand in two rows
  let roomsH = 118;

  const decode = (text, Type) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Type(bytes.buffer);
  };
  const count = (value) => value.toLocaleString("en");
  const format = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });
  const time = (s) => (s < 0.001 ? `${format(1e6 * s)} µs` : s < 1 ? `${format(1e3 * s)} ms` : `${format(s)} s`);
  const make = (tag, attributes, text) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text) made.textContent = text;
    return made;
  };

  for (const panel of panels) {
    panel.edges = decode(panel.edges, Float32Array);
    panel.kind = decode(panel.kind, Uint8Array);
    panel.status = decode(panel.status, Uint8Array);
    panel.operations = decode(panel.operations, Uint16Array);
    panel.server = decode(panel.server, Uint8Array);
    panel.call = decode(panel.call, Uint32Array); // the copies of a hedged call are dots of one call
    panel.copy = decode(panel.copy, Uint8Array);
    if (panel.attempts) panel.attempts = decode(panel.attempts, Uint8Array);
    panel.width = panel.path.length + 1; // edges of one call
  }
  const from = Math.min(...panels.map((panel) => panel.from_s));
  const until = Math.max(...panels.map((panel) => panel.until_s));
  const ends = Math.max(...panels.map((panel) => panel.end_s)); // all strips have one time axis
  // The highest value of a strip, over all panels: where two are compared, they have one scale.
  const highest = (values, others) => 1.15 * Math.max(1e-9, ...panels.flatMap((panel) => [...values(panel), ...(others(panel) || [])]));
  const highestThroughput = () => highest((panel) => [...panel.throughput, panel.predicted?.[1] || 0], (panel) => panel.arrivals);
  const most = {
    throughput: highestThroughput(),
    inFlight: highest((panel) => [...panel.in_flight, panel.limit || 0], () => null),
  };
  // Two stations that a call passes in the other order than in the panel above.
  panels.forEach((panel, number) => {
    const above = (panels[number - 1]?.rooms || []).map((room) => room.label), here = panel.rooms.map((room) => room.label);
    const second = here.find((label, at) => at && above.includes(label) && above.indexOf(here[at - 1]) > above.indexOf(label));
    panel.swapped = second ? `here the ${here[here.indexOf(second) - 1]} comes before the ${second}` : "";
  });

  // ---- where the calls are at time t --------------------------------------------------------------

  // The calls in flight at t: for each room its calls, in the order in which they entered.
  function placed(panel, t) {
    const rooms = panel.rooms.map(() => []), open = new Set(), sent = new Set();
    let inFlight = 0, ended = 0;
    for (let call = 0; call < panel.count; call++) {
      const at = call * panel.width;
      if (panel.edges[at] > t) break; // they are in the order of sending
      if (panel.copies) sent.add(panel.call[call]);
      if (panel.edges[at + panel.width - 1] <= t) { ended++; continue; }
      let step = 0;
      while (panel.edges[at + step + 1] <= t) step++;
      inFlight++;
      if (panel.copies) open.add(panel.call[call]);
      const further = step === panel.spread ? panel.server[call] : 0; // the room of its server
      rooms[panel.path[step] + further].push({ call, step, entered: panel.edges[at + step], leaves: panel.edges[at + step + 1] });
    }
    for (const room of rooms) room.sort((a, b) => a.entered - b.entered);
    return panel.copies ? { rooms, inFlight: open.size, ended: sent.size - open.size } : { rooms, inFlight, ended };
  }

  // The next time at which a call is sent, moves or ends, in any panel.
  function nextEvent(t) {
    let next = until;
    for (const panel of panels)
      for (const edge of panel.edges) if (edge > t && edge < next) next = edge;
    return next;
  }

  // ---- the page -----------------------------------------------------------------------------------

  root.textContent = "";
  root.style.cssText = `font: 13px ${FONT}; max-width: ${MOST_ZOOM * WIDE}px`;
  for (const panel of panels) {
    panel.canvas = make("canvas", { role: "img", tabindex: "0", "aria-label": panel.alt, title: "space: play; → next event; ↓ next call, or click on it" });
    panel.canvas.style.cssText = "display: block; width: 100%; touch-action: manipulation";
    root.append(panel.canvas);
  }
  const bar = make("div", {});
  bar.style.cssText = "display: flex; gap: 8px; align-items: center; flex-wrap: wrap";
  const play = make("button", { "aria-label": "play", type: "button" }, "▶");
  const step = make("button", { "aria-label": "next event", title: "the next event, or →", type: "button" }, "next");
  const slider = make("input", { type: "range", min: 0, max: 10000, value: 0, "aria-label": "time" });
  slider.style.flex = "1 1 160px";
  const speed = make("select", { "aria-label": "speed" });
  for (const [value, label] of SPEEDS) speed.append(make("option", { value }, label));
  speed.value = SPEEDS[1][0];
  const clock = make("span", { "data-replay": "clock" });
  clock.style.cssText = "min-width: 6em; text-align: right; font-variant-numeric: tabular-nums";
  for (const each of [play, step, speed]) each.style.font = "inherit";
  bar.append(play, step, slider, speed, clock);
  const said = make("div", { "aria-live": "polite", "data-replay": "counts" });
  said.style.cssText = "margin: 4px 0; min-height: 1.4em";
  root.append(bar, said);
  for (const text of new Set(panels.map((panel) => panel.note))) {
    const note = make("div", { "data-replay": "note" }, text);
    note.style.opacity = ".75";
    root.append(note);
  }

  // ---- drawing ------------------------------------------------------------------------------------

  function draw(panel, t) {
    const slide = slideWide(), inNumbers = plain(), TOP = inNumbers && panel !== panels[0] ? 30 : 54;
    const canvas = panel.canvas, zoom = slide ? canvas.clientWidth / slide : Math.min(MOST_ZOOM, Math.max(1, canvas.clientWidth / WIDE));
    const W = Math.max(340, (canvas.clientWidth || 800) / zoom), rows = W < NARROW && !slide ? 2 : 1;
    roomsH = inNumbers ? 92 : 118;
    const perRow = Math.ceil(panel.rooms.length / rows), below = TOP + rows * (roomsH + 8) - 8, H = inNumbers ? below + 8 : below + 30 + CHART_H;
    const ratio = zoom * (window.devicePixelRatio || 1);
    if (canvas.width !== Math.round(W * ratio) || canvas.height !== Math.round(H * ratio)) {
      panel.W = W;
      root.style.fontSize = `${13 * zoom}px`;
      canvas.width = Math.round(W * ratio);
      canvas.height = Math.round(H * ratio);
      canvas.style.height = `${(H * (canvas.clientWidth || W)) / W}px`;
    }
    const c = canvas.getContext("2d"), ink = getComputedStyle(root).color;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, W, H);
    const write = (text, x, y, { weight = "", size = 12, alpha = 1, align = "left", colour = ink, most = undefined } = {}) => {
      c.globalAlpha = alpha; c.fillStyle = colour; c.textAlign = align;
      c.font = `${weight} ${size}px ${FONT}`; c.fillText(text, x, y, most); c.globalAlpha = 1; // `most`: a narrow room squeezes its text
    };
    const { rooms, inFlight } = placed(panel, t);
    write(panel.title, PAD, 18, { weight: "600", size: 15 });
    const after = PAD + 10 + c.measureText(panel.title).width;
    const rate = inNumbers ? `${valueAt(panel, panel.throughput, t)} ${panel.unit}` : "", rateW = rate ? 8 * rate.length : 0;
    if (rate) write(rate, W - PAD, 18, { size: 14, weight: "600", align: "right" });
    if (panel.swapped) write(panel.swapped, after, 18, { alpha: 0.75, size: 13, most: W - PAD - rateW - after });
    if (TOP > 30) legend(c, panel, write);

    const roomW = (W - 2 * PAD - GAP * (perRow - 1)) / perRow;
    panel.dots = [];
    panel.rooms.forEach((room, number) => {
      const x = PAD + (number % perRow) * (roomW + GAP), y = TOP + Math.floor(number / perRow) * (roomsH + 8), here = rooms[number];
      c.globalAlpha = 0.06; c.fillStyle = ink; c.beginPath(); c.roundRect(x, y, roomW, roomsH, 8); c.fill();
      c.globalAlpha = room.bottleneck ? 1 : 0.3; c.strokeStyle = room.bottleneck ? LIMIT : ink;
      c.lineWidth = room.bottleneck ? 2 : 1; c.stroke(); c.globalAlpha = 1;
      write(room.label, x + 8, y + 17, { weight: "600", size: 13, most: roomW - 12 });
      const what = number ? `${count(here.length)} ${room.what}` : panel.limit ? `${count(inFlight)} of ${count(panel.limit)} in flight` : `${count(inFlight)} in flight`;
      write(what, x + 8, y + 33, { alpha: 0.75, most: roomW - 12 });
      if (number % perRow && (number === 1 || panel.spread === null)) write("›", x - GAP / 2, y + roomsH / 2, { size: 18, align: "center", alpha: 0.6 });
      if (number === 0) taken(c, panel, x, y, roomW, inFlight, ink);
      else if (room.moving) travel(c, panel, here, t, x, y, roomW);
      else queueUp(c, panel, room, here, t, x, y, roomW, ink, write);
    });
    joined(c, panel, ink);
    if (inNumbers) return;
    const half = (W - 2 * PAD - 36) / 2;
    chart(c, panel, t, PAD, below, half, "throughput X", panel.unit, panel.throughput, panel.predicted?.[1], panel.predicted?.[0], ink, write, most.throughput, panel.arrivals);
    chart(c, panel, t, PAD + half + 36, below, half, "in flight L", "calls", panel.in_flight, panel.limit, "limit", ink, write, most.inFlight);
  }

  function legend(c, panel, write) {
    let x = PAD;
    for (const [number, kind] of panel.kinds.entries()) {
      if (!panel.occurs[number]) continue;
      c.fillStyle = KINDS[number % KINDS.length]; c.beginPath(); c.arc(x + 5, 36, 5, 0, 7); c.fill();
      write(kind, x + 14, 40, { alpha: 0.75 });
      x += 26 + c.measureText(kind).width;
    }
    if (panel.failures) {
      c.strokeStyle = FAILED; c.lineWidth = 2; c.beginPath(); c.arc(x + 5, 36, 5, 0, 7); c.stroke();
      const text = panel.W < NARROW ? "not OK" : "does not end with OK";
      write(text, x + 14, 40, { alpha: 0.75 });
      x += 26 + c.measureText(text).width;
    }
    if (!panel.attempts) return;
    failures(c, x + 5, 36, 5, 2);
    write("attempts that failed", x + 18, 40, { alpha: 0.75 });
  }

  // The attempts of a call that have failed, as small marks around its dot.
  function failures(c, x, y, radius, count) {
    c.fillStyle = FAILED;
    for (let number = 0; number < count; number++) {
      const angle = -0.9 + 0.9 * number, far = radius + 2.5;
      c.beginPath(); c.arc(x + far * Math.cos(angle), y + far * Math.sin(angle), Math.max(1, radius / 2.4), 0, 7); c.fill();
    }
  }

  function failedBefore(panel, each) {
    const last = panel.path.length - 1;
    if (each.step < last) return Math.min(each.step >> 1, panel.attempts[each.call]);
    return panel.attempts[each.call] - (panel.failed[panel.status[each.call]] ? 0 : 1);
  }

  // A line between the dots of one call, where it has several at once.
  function joined(c, panel, ink) {
    if (!panel.copies) return;
    const first = new Map(), faint = panel.dots.length > 40 ? 0.12 : 0.35;
    c.strokeStyle = ink; c.lineWidth = 1;
    for (const [x, y, dot] of panel.dots) {
      const call = panel.call[dot], other = first.get(call);
      if (!other) { first.set(call, [x, y]); continue; }
      c.globalAlpha = panel.picked === call ? 1 : faint;
      c.beginPath(); c.moveTo(...other);
      c.quadraticCurveTo((other[0] + x) / 2, Math.max(other[1], y) + 0.12 * Math.abs(x - other[0]), x, y); c.stroke();
    }
    c.globalAlpha = 1;
  }

  // How much of the client's limit is taken: a bar, because the calls themselves are elsewhere.
  function taken(c, panel, x, y, roomW, inFlight, ink) {
    if (!panel.limit) return;
    const width = roomW - 16, height = 10;
    c.globalAlpha = 0.5; c.fillStyle = c.strokeStyle = ink; c.lineWidth = 1;
    c.strokeRect(x + 8, y + 46, width, height);
    c.fillRect(x + 8, y + 46, width * Math.min(1, inFlight / panel.limit), height);
    c.globalAlpha = 1;
  }

  // Calls on their way: requests above, replies below.
  function travel(c, panel, here, t, x, y, roomW) {
    const lanes = [0, 0], gap = (roomsH - 62) / 5.1;
    for (const each of here) {
      const back = each.step > 0 ? 1 : 0, share = (t - each.entered) / Math.max(1e-9, each.leaves - each.entered);
      const way = x + 12 + (back ? 1 - share : share) * (roomW - 24), lane = lanes[back]++ % 3;
      dot(c, panel, each, way, y + 48 + (lane + 3.2 * back) * gap, 4.5);
    }
  }

  // Calls that wait or are served, first in first out; the ring is the rest of the service.
  function queueUp(c, panel, room, here, t, x, y, roomW, ink, write) {
    const grid = gridOf(Math.max(here.length, room.workers), roomW, roomsH - 48, panel.attempts ? 5 : room.serves ? 2 : 0);
    for (let worker = here.length; worker < Math.min(room.workers, grid.most); worker++) { // the idle threads
      const [px, py] = grid.at(x, y, worker);
      c.globalAlpha = 0.4; c.strokeStyle = ink; c.lineWidth = 1;
      c.beginPath(); c.arc(px, py, Math.max(1, grid.radius - 1), 0, 7); c.stroke(); c.globalAlpha = 1;
    }
    here.slice(0, grid.most).forEach((each, rank) => {
      const [px, py] = grid.at(x, y, rank);
      dot(c, panel, each, px, py, grid.radius);
      if (!room.serves || grid.radius < 3) return;
      const left = (each.leaves - t) / Math.max(1e-9, each.leaves - each.entered);
      c.strokeStyle = ink; c.lineWidth = 1.6;
      c.beginPath(); c.arc(px, py, grid.radius + 1.8, -Math.PI / 2, -Math.PI / 2 + 2 * Math.PI * left); c.stroke();
    });
    if (here.length > grid.most) write(`and ${here.length - grid.most} more`, x + 8, y + roomsH - 4, { alpha: 0.75 });
  }

  function gridOf(count, roomW, height, ring = 0) {
    for (const radius of [5.2, 4, 3, 2, 1.4]) {
      const stride = 2.6 * radius + 1 + ring, columns = Math.max(1, Math.floor((roomW - 20) / stride)), rows = Math.floor(height / stride);
      const fits = count <= columns * rows;
      if (fits || radius === 1.4)
        return {
          radius, most: columns * (fits ? rows : Math.floor((height - 16) / stride)), // below them: how many more
          at: (x, y, rank) => [x + 12 + (rank % columns) * stride, y + 48 + Math.floor(rank / columns) * stride],
        };
    }
  }

  function dot(c, panel, each, x, y, radius) {
    const failed = panel.failed[panel.status[each.call]], operations = panel.operations[each.call];
    c.fillStyle = KINDS[panel.kind[each.call] % KINDS.length];
    c.beginPath();
    if (operations > 1) c.roundRect(x - radius, y - radius, 2 * radius, 2 * radius, 2); // a message with several
    else c.arc(x, y, panel.copy[each.call] ? radius - 1 : radius, 0, 7);
    if (panel.copy[each.call]) { c.strokeStyle = c.fillStyle; c.lineWidth = 2; c.stroke(); }
    else c.fill();
    if (panel.attempts) failures(c, x, y, radius, failedBefore(panel, each));
    if (failed) { c.strokeStyle = FAILED; c.lineWidth = 2; c.stroke(); }
    if (panel.picked === panel.call[each.call]) { c.strokeStyle = LIMIT; c.lineWidth = 2.5; c.beginPath(); c.arc(x, y, radius + 5, 0, 7); c.stroke(); }
    if (panel.deadline_s) { // the fuse: how much of the deadline is left
      const left = Math.max(0, 1 - (now - panel.edges[each.call * panel.width]) / panel.deadline_s);
      c.strokeStyle = FAILED; c.lineWidth = 1.2; c.beginPath();
      c.moveTo(x - radius, y + radius + 2.5); c.lineTo(x - radius + 2 * radius * left, y + radius + 2.5); c.stroke();
    }
    panel.dots.push([x, y, each.call]);
  }

  const valueAt = (panel, line, t) => format(line[Math.min(line.length - 1, Math.max(0, Math.floor((t / panel.end_s) * line.length)))]);
  function chart(c, panel, t, x, below, width, name, unit, values, reference, referenceName, ink, write, most, others = null) {
    const y = below + 26;
    c.globalAlpha = 0.3; c.strokeStyle = ink; c.lineWidth = 1; c.strokeRect(x, y, width, CHART_H); c.globalAlpha = 1;
    const here = (line) => valueAt(panel, line, t);
    write(`${name} = ${here(values)} ${unit}`, x, y - 6, { alpha: 0.75, most: width });
    if (reference) {
      const level = y + CHART_H * (1 - reference / most);
      c.setLineDash([5, 4]); c.strokeStyle = LIMIT; c.beginPath(); c.moveTo(x, level); c.lineTo(x + width, level); c.stroke(); c.setLineDash([]);
      if (width > 240) write(`${referenceName} ${format(reference)}`, x + width, y - 6, { align: "right", colour: LIMIT });
    }
    const bin = panel.end_s / values.length;
    for (const [line, colour] of [[others, FAILED], [values, KINDS[0]]]) {
      if (!line) continue;
      c.strokeStyle = colour; c.lineWidth = 1.6; c.beginPath();
      line.forEach((value, number) => {
        const px = x + (width * (number + 0.5) * bin) / ends, py = y + CHART_H * (1 - value / most);
        if ((number + 0.5) * bin <= t || number === 0) number ? c.lineTo(px, py) : c.moveTo(px, py);
      });
      c.stroke();
    }
    if (others) write(`attempts that arrived: ${here(others)}/s`, x + 6, y + 13, { colour: FAILED });
    const head = x + width * Math.min(1, t / ends);
    c.strokeStyle = ink; c.lineWidth = 1; c.beginPath(); c.moveTo(head, y); c.lineTo(head, y + CHART_H); c.stroke();
  }

  // ---- time ---------------------------------------------------------------------------------------

  let now = panels[0].start_s, playing = false, last = 0;
  function show() {
    for (const panel of panels) draw(panel, now);
    slider.value = Math.round((1e4 * (now - from)) / Math.max(1e-9, until - from));
    clock.textContent = `t = ${now.toFixed(3)} s`;
    said.textContent = playing ? "" : panels.map(inWords).join(" — "); // what it said of another time would contradict the picture
  }
  function inWords(panel) {
    const { rooms, inFlight, ended } = placed(panel, now);
    const parts = panel.rooms.map((room, number) => (number ? `${room.label} ${count(rooms[number].length)}` : "")).filter(Boolean);
    const name = panels.length > 1 ? `${panel.title}: ` : "";
    const where = plain() ? "" : ` (${parts.join(", ")})`;
    return `${name}${count(inFlight)} in flight${where}, ${count(ended)} ended`;
  }
  function tick(at) {
    if (!playing || !root.isConnected) return;
    now += ((at - last) / 1000) * Number(speed.value);
    last = at;
    if (now >= until) { now = until; pause(); }
    show();
    requestAnimationFrame(tick);
  }
  function pause() { playing = false; play.textContent = "▶"; play.setAttribute("aria-label", "play"); }
  function toggle() {
    if (playing) { pause(); show(); return; }
    if (now >= until) now = from;
    playing = true; play.textContent = "❚❚"; play.setAttribute("aria-label", "pause");
    last = performance.now();
    requestAnimationFrame(tick);
  }
  const goTo = (t) => { pause(); now = Math.min(until, Math.max(from, t)); show(); };
  play.onclick = toggle;
  step.onclick = () => goTo(nextEvent(now));
  slider.oninput = () => goTo(from + ((until - from) * slider.value) / 1e4);
  root.setAttribute("data-lm-suppress-shortcuts", "true"); // the arrow keys are ours, not JupyterLab's
  root.addEventListener("keydown", (event) => {
    if (event.target === slider || event.target === speed || event.target === play || event.target === step) return;
    const act = { " ": toggle, ArrowRight: () => goTo(nextEvent(now)), ArrowLeft: () => goTo(now - (until - from) / 200), Home: () => goTo(from), End: () => goTo(until), ArrowDown: () => nextCall(event.target, 1), ArrowUp: () => nextCall(event.target, -1) }[event.key];
    if (!act) return;
    event.preventDefault(); event.stopPropagation(); // JupyterLab's own keys
    act();
  });

  // A click on a dot, and ↓ or ↑ in the picture, show the call: its times at each station, and how it ended.
  for (const panel of panels)
    panel.canvas.addEventListener("click", (event) => {
      const box = panel.canvas.getBoundingClientRect(), scale = panel.W / box.width;
      const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
      const near = panel.dots.map(([dx, dy, call]) => [Math.hypot(dx - x, dy - y), call]).sort((a, b) => a[0] - b[0])[0];
      choose(panel, near && near[0] < 12 ? near[1] : undefined);
    });
  function choose(panel, dot) {
    panel.chosen = dot; panel.picked = panel.call[dot];
    pause(); show();
    if (dot !== undefined) said.textContent = dotsOf(panel, dot).map((each) => aboutCall(panel, each)).join(" — ");
  }
  // Through the calls in flight, in the order in which they are drawn.
  function nextCall(canvas, by) {
    const panel = panels.find((each) => each.canvas === canvas) || panels[0], dots = panel.dots.map(([, , dot]) => dot);
    if (dots.length) choose(panel, dots[(dots.indexOf(panel.chosen) + by + dots.length) % dots.length]);
  }
  function dotsOf(panel, dot) {
    return panel.copies ? [...panel.call.keys()].filter((each) => panel.call[each] === panel.call[dot]) : [dot];
  }
  function aboutCall(panel, call) {
    const at = call * panel.width;
    const steps = panel.path.map((_, number) => [panel.steps[number], panel.edges[at + number + 1] - panel.edges[at + number]])
      .filter(([, spent]) => spent > 0 || !panel.attempts).map(([name, spent]) => `${name} ${time(spent)}`);
    const operations = panel.operations[call];
    const copy = panel.copy[call] ? `copy ${panel.copy[call] + 1}: ` : "";
    const served = panel.spread === null ? "" : ` at server ${panel.server[call]}`;
    return `${copy}${panel.kinds[panel.kind[call]]}${served}${operations > 1 ? ` of ${operations} operations` : ""}, sent at ${panel.edges[at].toFixed(3)} s: ` +
      `${steps.join(", ")}; ${time(panel.edges[at + panel.width - 1] - panel.edges[at])} in all, ended with ${panel.statuses[panel.status[call]]}`;
  }

  // On a page that asks: the number of its reader, by question, beside the throughput.
  const say = (predictions) => {
    for (const panel of panels) {
      const { value } = (panel.asked && predictions[panel.asked[0]]) || {};
      if (value) panel.predicted = ["you said", value * panel.asked[1]];
    }
    most.throughput = highestThroughput();
    show();
  };
  const predicted = () => panels.map((panel) => panel.predicted);
  root.replay = { goTo, say, predicted, time: () => now, counts: (t) => panels.map((panel) => placed(panel, t).rooms.map((room) => room.length)) };
  // Only the pictures: a longer text below them makes the page higher, and must not be replaced.
  new ResizeObserver(() => panels.forEach((panel) => draw(panel, now))).observe(root);
  show();
}
