// Keeps a page up to date: changes arrive as server-sent events, as parts of the page or as single
// cells of its tables.
"use strict";
(() => {
  const main = document.getElementById("main");
  const state = document.getElementById("live-state");
  const pause = document.getElementById("live-pause");
  if (!main || !main.dataset.live || !state || !pause) return;
  const say = (text) => { if (state.textContent !== text) state.textContent = text; };
  const toEnd = (within) => within.querySelectorAll("[data-tail]").forEach((pre) => {
    pre.scrollTop = pre.scrollHeight;
  });
  let events = null;
  let mark = document.querySelector("[data-mark]").dataset.mark; // version that was loaded

  const put = (section, html) => {
    const inside = section.contains(document.activeElement) ? document.activeElement : null;
    if (inside && /^(INPUT|SELECT)$/.test(inside.tagName)) return; // the user is typing there
    const links = [...section.querySelectorAll("a, button, [tabindex]")];
    const at = inside ? links.indexOf(inside) : -1;
    const pre = section.querySelector("[data-tail]");
    const atEnd = pre && pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;
    const wide = section.querySelector(".wide");
    const left = wide ? wide.scrollLeft : 0;
    const place = pre ? pre.scrollTop : 0;
    section.innerHTML = html;
    const now = section.querySelector("[data-tail]");
    if (now) now.scrollTop = atEnd ? now.scrollHeight : place;
    const wideNow = section.querySelector(".wide");
    if (wideNow) wideNow.scrollLeft = left;
    if (at >= 0) {
      const again = section.querySelectorAll("a, button, [tabindex]")[at];
      if (again) again.focus({ preventScroll: true });
    }
  };

  const putCells = (section, cells) => {
    const rows = section.querySelector("tbody").rows;
    for (const [row, column, html] of cells) {
      const cell = rows[row].cells[column];
      const isIn = cell.contains(document.activeElement);
      cell.outerHTML = html;
      if (isIn) rows[row].cells[column].querySelector("a")?.focus({ preventScroll: true });
    }
  };

  const start = () => {
    const at = main.dataset.live;
    events = new EventSource(mark ? `${at}${at.includes("?") ? "&" : "?"}shown=${mark}` : at);
    mark = "";
    events.onopen = () => say("live");
    events.onerror = () => say("no answer; trying again");
    events.addEventListener("parts", (event) => {
      const parts = JSON.parse(event.data);
      if (Object.keys(parts).some((name) => !main.querySelector(`[data-part="${name}"]`))) {
        stop();
        location.reload(); // the page shows an error so far, and now there is more
        return;
      }
      for (const section of main.querySelectorAll("[data-part]")) {
        const news = parts[section.dataset.part];
        if (Array.isArray(news)) putCells(section, news);
        else if (news !== undefined) put(section, news);
      }
      say("live");
    });
    events.addEventListener("reload", () => { stop(); location.reload(); });
    events.addEventListener("trouble", (event) => say(JSON.parse(event.data)));
    pause.textContent = "Pause";
  };
  const stop = () => { if (events) events.close(); events = null; };

  pause.hidden = false;
  pause.addEventListener("click", () => {
    if (events) { stop(); say("paused"); pause.textContent = "Go on"; } else { start(); }
  });
  addEventListener("pagehide", stop);
  addEventListener("pageshow", () => { if (!events && pause.textContent === "Pause") start(); });
  toEnd(main);
  start();
})();
