// Keeps the end of the log in sight while it is followed, and the page small.
"use strict";
(() => {
  const MOST_LINES = 2000;
  let follows = true;

  function end() {
    const tail = document.getElementById("tail");
    if (!tail) return;
    while (tail.children.length > MOST_LINES) tail.firstElementChild.remove();
    if (follows) tail.scrollTop = tail.scrollHeight;
  }

  function set(value) {
    follows = value;
    document.getElementById("follow")?.setAttribute("aria-pressed", String(value));
    if (value) end();
  }

  document.addEventListener("DOMContentLoaded", () => {
    const tail = document.getElementById("tail"), button = document.getElementById("follow");
    if (!tail || !button) return;
    button.hidden = false;
    button.addEventListener("click", () => set(!follows));
    // Who scrolls up reads; who scrolls to the end follows again
    tail.addEventListener("scroll", () => {
      const isAtEnd = tail.scrollHeight - tail.scrollTop - tail.clientHeight < 8;
      if (isAtEnd !== follows) set(isAtEnd);
    });
    end();
  });
  document.addEventListener("htmx:oobAfterSwap", end);
  document.addEventListener("htmx:afterSettle", end);
})();
