/* A wide table or a long line of code scrolls inside its own box: the box takes the focus, so that
   it can be scrolled with the arrow keys. A formula has its text for those who hear the page. */
document.addEventListener("DOMContentLoaded", () => {
  for (const box of document.querySelectorAll(".highlight pre, .table-wrapper, .cell_output .output")) {
    if (box.scrollWidth > box.clientWidth && !box.hasAttribute("tabindex")) {
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", box.matches("pre *, pre") ? "code" : "wide content, scrolls");
    }
  }
});
