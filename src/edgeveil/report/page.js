"use strict";
/* Tables sort; marks of the figures answer pointer and keyboard; a chosen defence stands out everywhere; two sliders
   ask the rule in #rule again. Without script the page shows the same figures, tables and verdict. */

function sortable(table) {
  const heads = [...table.querySelectorAll("thead th")];
  const value = (row, column) => {
    const text = row.cells[column].textContent.trim(), number = parseFloat(text.replace(/,/g, ""));
    return isNaN(number) ? text : number;
  };
  const order = (x, y) => typeof x === typeof y ? (x < y ? -1 : x > y ? 1 : 0) : typeof x === "number" ? -1 : 1;
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => order(value(a, column), value(b, column)) * (down ? -1 : 1));
    table.tBodies[0].append(...rows);
  }));
}

/* The engine's rule (edgeveil/report/explore.py): the same filter, the same order, the same words. */
function choose(rule, utility, epsilon) {
  const [floor, floorText] = rule.utilities[utility], [cap, capText] = rule.epsilons[epsilon];
  const none = why => ({ label: null, text: "No release is recommended" + why });
  const sweet = rule.releases.filter(r => r.score !== null);
  if (!sweet.length) return none(". " + rule.nothing);
  const tight = sweet.filter(r => cap === null || r.epsilon <= cap);
  if (!tight.length) return none(`: none that is shown to help has ε at most ${capText}.`);
  const good = tight.filter(r => floor === null || (r.low !== null && r.low >= floor));
  const shown = r => r.low === null ? -1 : r.low;
  if (!good.length) {
    const near = tight.reduce((a, b) => shown(b) > shown(a) ? b : a);
    const within = cap === null ? "" : ` with ε at most ${capText}`;
    return none(`: none${within} is shown to reach a utility of ${floorText}. ${near.reaches}.`);
  }
  const ranked = [...good].sort((a, b) => b.score - a.score);
  const equal = (a, b) => a.error === null || b.error === null ||
    !(Math.abs(a.leakage - b.leakage) > rule.sigma * Math.hypot(a.error, b.error));
  const better = (a, b) => b.utility > a.utility || (b.utility === a.utility && b.epsilon < a.epsilon) ? b : a;
  const best = ranked.filter(r => equal(r, ranked[0])).reduce(better);
  const others = ranked.filter(r => r !== best).map(r => r.label);
  const after = others.length ? ` After it: ${others.join(", ")}.` : "";
  return { label: best.label, text: `${best.label} ${best.words}.${after}` };
}

function explorable(rule) {
  const root = document.documentElement, say = document.getElementById("said"), tip = document.getElementById("tip");
  const known = new Map(rule.releases.map(r => [r.label, r]));
  const marks = [...document.querySelectorAll("figure svg .mark")];
  const labels = [...marks.filter(m => m.dataset.release).map(m => [m.dataset.defence, m.dataset.release]),
    ...rule.releases.map(r => [r.defence, r.label])];
  const name = new Map(labels.map(([defence, label]) => [defence, label.replace(/ ε=.*$/, "")]));
  const rows = [...document.querySelectorAll("table.summary tr[data-defence]")];
  const buttons = [];
  let chosen = null;

  const count = (number, thing) => `${number} ${thing}${number === 1 ? "" : "s"}`;

  function highlight(defence) {
    chosen = defence === chosen ? null : defence;
    root.classList.toggle("chosen", chosen !== null);
    const on = element => element.dataset.defence === chosen;
    [...marks, ...rows].forEach(element => element.classList.toggle("on", on(element)));
    buttons.forEach(button => button.setAttribute("aria-pressed", String(on(button))));
    const figures = new Set(marks.filter(on).map(m => m.closest("figure"))).size;
    say.textContent = chosen === null ? "All defences are shown alike." :
      `${name.get(chosen) || chosen} stands out in ${count(figures, "figure")} and ${count(rows.filter(on).length, "row")}. Escape shows all alike.`;
  }

  const words = mark => {
    const release = known.get(mark.dataset.release);
    if (release) return [release.label, ...release.tip];
    const elsewhere = mark.dataset.release ? ["measured apart: no model of this audit"] : [];
    return [mark.dataset.release || name.get(mark.dataset.defence) || mark.dataset.defence, ...elsewhere];
  };
  function show(mark) {
    const box = mark.getBoundingClientRect(), [head, ...lines] = words(mark), strong = document.createElement("strong");
    strong.textContent = head;
    tip.replaceChildren(strong, ...lines.flatMap(line => [document.createElement("br"), line]));
    tip.hidden = false;
    const width = tip.offsetWidth, most = root.clientWidth - width - 8;
    tip.style.left = Math.max(8, Math.min(box.left + box.width / 2 - width / 2, most)) + scrollX + "px";
    const above = box.top - tip.offsetHeight - 8;
    tip.style.top = (above > 0 ? above : box.bottom + 8) + scrollY + "px";
  }
  const hide = () => { tip.hidden = true; };

  marks.forEach(mark => {
    const use = mark.querySelector("use");
    if (use && mark.dataset.release) {
      const reach = document.createElementNS("http://www.w3.org/2000/svg", "circle");
      for (const [key, value] of [["cx", use.getAttribute("x")], ["cy", use.getAttribute("y")], ["r", 9]]) reach.setAttribute(key, value);
      reach.classList.add("reach");
      mark.append(reach);
    }
    mark.addEventListener("pointerenter", () => show(mark));
    mark.addEventListener("pointerleave", hide);
    mark.addEventListener("click", () => highlight(mark.dataset.defence));
  });

  /* One tab stop per figure; arrows go from release to release. */
  document.querySelectorAll("figure svg").forEach(svg => {
    const points = [...svg.querySelectorAll(".mark")].filter(m => m.dataset.release && m.querySelector("use"));
    if (!points.length) return;
    svg.setAttribute("role", "group");
    points.forEach((point, i) => {
      point.setAttribute("role", "button");
      point.setAttribute("tabindex", i ? "-1" : "0");
      point.setAttribute("aria-label", words(point).join(", "));
      point.setAttribute("aria-pressed", "false");
      buttons.push(point);
      point.addEventListener("focus", () => show(point));
      point.addEventListener("blur", hide);
      point.addEventListener("keydown", event => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (step) {
          const next = points[(i + step + points.length) % points.length];
          point.setAttribute("tabindex", "-1");
          next.setAttribute("tabindex", "0");
          next.focus();
        } else if (event.key === "Enter" || event.key === " ") highlight(point.dataset.defence);
        else return;
        event.preventDefault();
      });
    });
  });
  rows.forEach(row => {
    const head = row.querySelector("th"), button = document.createElement("button");
    button.type = "button";
    button.className = "pick";
    button.dataset.defence = row.dataset.defence;
    button.setAttribute("aria-pressed", "false");
    button.append(...head.childNodes);
    button.addEventListener("click", () => highlight(row.dataset.defence));
    head.append(button);
    buttons.push(button);
  });
  document.addEventListener("keydown", event => {
    if (event.key !== "Escape") return;
    hide();
    if (chosen !== null) highlight(chosen);
  });

  const needs = document.getElementById("needs");
  if (!needs) return;
  const [utility, epsilon] = needs.querySelectorAll("input"), answer = document.getElementById("answer");
  function ask() {
    for (const [input, positions] of [[utility, rule.utilities], [epsilon, rule.epsilons]]) {
      const text = positions[+input.value][1];
      input.setAttribute("aria-valuetext", text);
      needs.querySelector(`output[for=${input.id}]`).textContent = text;
    }
    const found = choose(rule, +utility.value, +epsilon.value);
    answer.textContent = found.text;
    rows.forEach(row => row.classList.toggle("wanted", row.dataset.release === found.label));
  }
  needs.addEventListener("input", ask);
  needs.addEventListener("reset", () => setTimeout(ask));
  needs.hidden = false;
  ask();
}

document.querySelectorAll("table.sortable").forEach(sortable);
explorable(JSON.parse(document.getElementById("rule").textContent));
