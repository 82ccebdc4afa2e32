// The list of pages on a narrow screen: a button opens it, and it closes by itself. On a broad one it is always there.

const button = document.getElementById("menu");
const pages = document.getElementById("pages");

const isOpen = () => button.getAttribute("aria-expanded") === "true";

/** Let the button open and close the list of pages. */
export function prepareMenu() {
  button.addEventListener("click", () => (isOpen() ? closeMenu() : openMenu()));
  pages.addEventListener("click", (event) => {
    if (!isOpen() || !event.target.closest("a")) return;
    setOpen(false);
    document.getElementById("page").focus(); // the link is not there any more
  });
  document.addEventListener("pointerdown", (event) => {
    if (isOpen() && !pages.contains(event.target) && !button.contains(event.target)) setOpen(false);
  });
  pages.addEventListener("focusout", ({ relatedTarget }) => {
    if (isOpen() && relatedTarget && !pages.contains(relatedTarget) && relatedTarget !== button) setOpen(false);
  });
}

function openMenu() {
  pages.style.top = `${document.querySelector("header").getBoundingClientRect().bottom}px`; // the header has one row or two
  setOpen(true);
  (pages.querySelector("a[aria-current]") ?? pages.querySelector("a")).focus();
}

/** Close the list and give the focus back to its button. Return whether it was open. */
export function closeMenu() {
  if (!isOpen()) return false;
  setOpen(false);
  button.focus();
  return true;
}

function setOpen(open) {
  button.setAttribute("aria-expanded", String(open));
  pages.classList.toggle("open", open);
}
