// What pages do in the browser besides htmx: times in the reader's zone, the theme, keys, and a worker that is gone.
"use strict";
(() => {
  const root = document.documentElement;

  // One clock on all pages, 24 hours whatever the browser's language does; the zone stands in the header
  const clock = (at) => at.toLocaleTimeString("en-GB", { hour12: false });
  const day = (at) => `${at.getFullYear()}-${String(at.getMonth() + 1).padStart(2, "0")}-${String(at.getDate()).padStart(2, "0")}`;
  const zone = () => {
    const parts = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" }).formatToParts(new Date());
    return parts.find((part) => part.type === "timeZoneName").value;
  };

  function localTimes(within) {
    for (const time of within.querySelectorAll("time[data-ms]")) {
      const at = new Date(Number(time.dataset.ms));
      // Whoever writes a record gives it its time: one beyond all calendars stays the number that it is
      if (Number.isNaN(at.getTime())) continue;
      time.dateTime = at.toISOString();
      time.title = at.toISOString();
      const before = at.toDateString() === new Date().toDateString() ? "" : day(at) + " ";
      time.textContent = before + clock(at);
      delete time.dataset.ms;
    }
  }

  function switchTheme() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = root.dataset.theme || (dark ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    document.cookie = `kconnect-theme=${root.dataset.theme}; path=/ui; max-age=31536000; samesite=strict`;
    document.dispatchEvent(new CustomEvent("kconnect:theme"));
  }

  let goneSince = 0;
  function gone(isGone, since = Date.now()) {
    const banner = document.getElementById("gone");
    if (!isGone) goneSince = 0;
    else goneSince ||= since;
    if (!banner) return;
    banner.hidden = !isGone;
    if (isGone) banner.querySelector("time").textContent = clock(new Date(goneSince));
  }

  document.addEventListener("DOMContentLoaded", () => {
    localTimes(document);
    const reported = document.getElementById("zone");
    if (reported) reported.textContent = zone();
    document.getElementById("theme")?.addEventListener("click", switchTheme);
    if (location.search.includes("note=")) {
      const url = new URL(location.href);
      url.searchParams.delete("note");
      history.replaceState(history.state, "", url);
    }
  });
  document.addEventListener("htmx:load", (event) => localTimes(event.detail.elt));
  // Nobody looks at a hidden page: it need not be kept current
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden && event.detail.requestConfig.verb === "get") event.preventDefault();
  });
  // A worker that is frozen takes connections and never answers; changes may take as long as they need
  document.addEventListener("htmx:configRequest", (event) => {
    if (event.detail.verb === "get") event.detail.timeout = 30000;
  });
  // A page has its answer, or a part of it, in kconnect.ui.read.timeout.ms: who looks need not wait for the end
  const silentAfterMs = 5000, waiting = new Map();
  document.addEventListener("htmx:beforeSend", (event) => {
    if (event.detail.requestConfig.verb !== "get") return;
    const began = Date.now();
    waiting.set(event.detail.xhr, setTimeout(() => gone(true, began), silentAfterMs));
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    clearTimeout(waiting.get(event.detail.xhr));
    waiting.delete(event.detail.xhr);
  });
  // What is put into a dialog opens it; Cancel and Escape close it
  document.addEventListener("htmx:afterSwap", (event) => {
    const dialog = event.detail.target.closest("dialog");
    if (dialog && !dialog.open) dialog.showModal();
  });
  // What goes wrong while a dialog is open is reported in it: the page behind cannot be seen
  function inDialog() {
    const dialog = document.querySelector("dialog[open]");
    if (!dialog) return null;
    let place = dialog.querySelector(".dialog-message");
    if (!place) {
      place = document.createElement("div");
      place.className = "dialog-message";
      place.setAttribute("role", "alert");
      dialog.prepend(place);
    }
    return place;
  }
  // What an error is about, and where it is reported: until the same request succeeds
  let failed = "", reported = null;
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target.id !== "message") return;
    reported = event.detail.target = inDialog() || event.detail.target;
    failed = event.detail.requestConfig.path;
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (!reported || !event.detail.successful || event.detail.requestConfig.path !== failed) return;
    reported.replaceChildren();
    reported = null;
  });
  function unanswered() {
    gone(true);
    const place = inDialog();
    if (!place) return;
    const said = document.createElement("p");
    said.className = "banner bad";
    said.textContent = "The console's worker does not answer. Nothing is lost: try again once it is back.";
    place.replaceChildren(said);
  }
  document.addEventListener("click", (event) => {
    const dialog = event.target.closest("[data-close]")?.closest("dialog");
    if (dialog) { event.preventDefault(); dialog.close(); }
  });
  document.addEventListener("htmx:sendError", unanswered);
  document.addEventListener("htmx:timeout", unanswered);
  document.addEventListener("htmx:afterRequest", (event) => { if (event.detail.xhr.status) gone(false); });

  // Rows that are chosen stay so while polling replaces them (hx-preserve); what is no longer shown is not chosen
  function picked() {
    const all = document.getElementById("pick-all");
    if (!all) return;
    const boxes = [...document.querySelectorAll("#rows [name=name]")];
    const count = boxes.filter((box) => box.checked).length;
    document.getElementById("picked").textContent = count;
    all.checked = count > 0 && count === boxes.length;
    all.indeterminate = count > 0 && count < boxes.length;
  }
  document.addEventListener("change", (event) => {
    if (event.target.id === "pick-all") {
      for (const box of document.querySelectorAll("#rows [name=name]")) box.checked = event.target.checked;
    }
    picked();
  });
  for (const swapped of ["DOMContentLoaded", "htmx:afterSwap", "htmx:oobAfterSwap"]) document.addEventListener(swapped, picked);

  // Keys: / to the search, j and k through rows, Escape out of a field, ? for nothing hidden: they are in docs/console.md
  document.addEventListener("keydown", (event) => {
    const inField = event.target.closest("input, select, textarea, [contenteditable]");
    if (event.key === "Escape" && inField) inField.blur();
    if (inField || event.ctrlKey || event.metaKey || event.altKey) return;
    const field = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (field) {
      event.preventDefault();
      field.focus();
      if (field.click && field.matches("a, button")) field.click();
    } else if (event.key === "j" || event.key === "k") {
      const links = [...document.querySelectorAll(".list .name > a:first-child")];
      if (!links.length) return;
      const at = links.indexOf(document.activeElement);
      const next = at < 0 ? 0 : at + (event.key === "j" ? 1 : -1);
      links[Math.max(0, Math.min(links.length - 1, next))].focus();
    }
  });
})();
