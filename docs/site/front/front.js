// The front page: the replay, L = X·R with one box that follows, and cards that open after a guess.
"use strict";
{
  const format = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });
  // 2,450 and 2.5 and 2,5: a comma before three digits is for thousands, any other is a point.
  const number = (text) => {
    const plain = text.trim().replace(/[\s_]/g, "").replace(/,(?=\d{3}(\D|$))/g, "").replace(",", ".");
    return plain && Number.isFinite(Number(plain)) ? Number(plain) : null;
  };

  const panels = JSON.parse(document.getElementById("run-data").textContent);
  if (panels.length) showReplay(document.getElementById("replay"), panels);

  // ---- L = X·R: the box that was not typed into for longest follows from the other two -----------
  const boxes = document.querySelector(".boxes"), said = document.getElementById("said");
  const order = ["R", "X", "L"]; // the box that follows is the first one
  const find = {
    L: (v) => (v.X * v.R) / 1e3,
    X: (v) => v.L / (v.R / 1e3),
    R: (v) => (1e3 * v.L) / v.X,
  };
  function follow() {
    const [found, ...typed] = order, values = {};
    for (const name of typed) values[name] = number(boxes.elements[name].value);
    for (const name of order) boxes.elements[name].classList.toggle("found", name === found);
    if (typed.some((name) => !(values[name] > 0))) { said.textContent = "Type a number above 0 into two of the boxes."; return; }
    values[found] = find[found](values);
    boxes.elements[found].value = format(values[found]);
    said.textContent = `${format(values.X)} calls end each second, and each takes ${format(values.R)} ms: ${format(values.L)} in flight.`;
  }
  boxes.addEventListener("input", (event) => {
    order.splice(order.indexOf(event.target.name), 1);
    order.push(event.target.name);
    follow();
  });
  boxes.addEventListener("submit", (event) => event.preventDefault());
  boxes.elements.R.classList.add("found");

  // ---- the cards -------------------------------------------------------------------------------
  const KEPT = "rpc-throughput/five";
  const stored = () => { try { return JSON.parse(localStorage.getItem(KEPT)) || {}; } catch { return {}; } };
  const keep = (id, guess) => { try { localStorage.setItem(KEPT, JSON.stringify({ ...stored(), [id]: guess })); } catch { /* private mode */ } };

  function verdict(card, guess) {
    const near = (value, within) => Math.abs(Math.log(guess / value)) <= Math.log(within);
    const said = `You said ${format(guess)}; it is ${card.answer.toLocaleString("en")} ${card.unit}`;
    if (near(card.answer, card.within)) return `✔ ${card.right} ${said}.`;
    const camp = card.camps.find((each) => near(each.at, 1.04));
    const factor = guess > card.answer ? guess / card.answer : card.answer / guess;
    const high = guess > card.answer;
    return `${camp ? camp.says : high ? card.high : card.low} ${said}: your guess is ${format(factor)} times too ${high ? "high" : "low"}.`;
  }
  function open(article, guess, focus) {
    article.querySelector(".verdict").textContent = verdict(JSON.parse(article.dataset.card), guess);
    article.classList.add("open");
    if (focus) article.querySelector(".finds").focus({ preventScroll: true });
  }
  for (const article of document.querySelectorAll(".card")) {
    const form = article.querySelector(".ask"), field = form.querySelector("input");
    form.noValidate = true;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const guess = number(field.value);
      if (!(guess > 0)) {
        article.querySelector(".verdict").textContent = "Type a number above 0, such as 12.5.";
        field.focus();
        return;
      }
      keep(article.id, guess);
      open(article, guess, true);
    });
    const before = stored()[article.id];
    if (before > 0) { field.value = before; open(article, before, false); }
  }
}
