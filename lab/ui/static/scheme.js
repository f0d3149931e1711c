// Dark or light: as the system says, or as somebody chose here. Runs before the page is drawn.
{
  const root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)"), button = document.getElementById("scheme");
  let chosen = null;
  try { chosen = localStorage.getItem("scheme"); } catch { /* where nothing may be kept */ }
  const show = () => {
    const dark = chosen ? chosen === "dark" : system.matches;
    root.dataset.scheme = dark ? "dark" : "light";
    button.textContent = dark ? "Light" : "Dark";
    dispatchEvent(new Event("resize")); // charts take their colours again
  };
  button.addEventListener("click", () => {
    chosen = root.dataset.scheme === "dark" ? "light" : "dark";
    try { localStorage.setItem("scheme", chosen); } catch { /* this visit only */ }
    show();
  });
  system.addEventListener("change", show);
  show();
}
