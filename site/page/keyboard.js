// The sidebar's links are one stop of the Tab key, the buttons above the text another; arrow keys move inside them.
// So the text is the fifth stop of every page.

const oneStop = (place, back, forth) => {
  const stops = () => [...place.querySelectorAll('a, button:not(.dropdown-item)')].filter((stop) => stop.checkVisibility());
  const all = stops();
  const current = all.find((stop) => stop.classList.contains('current')) ?? all[0];
  const choose = (chosen) => place.querySelectorAll('a, button:not(.dropdown-item)').forEach((stop) => { stop.tabIndex = stop === chosen ? 0 : -1; });
  choose(current);
  place.dataset.keys = `${back} ${forth}`;   // said in the page's corner (site.css)
  const steps = { '↑': 'ArrowUp', '↓': 'ArrowDown', '←': 'ArrowLeft', '→': 'ArrowRight' };
  place.addEventListener('keydown', (event) => {
    const step = { [steps[back]]: -1, [steps[forth]]: 1 }[event.key];
    const now = stops();
    const at = now.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    const next = now[Math.min(Math.max(at + step, 0), now.length - 1)];
    choose(next);
    next.focus();
  });
};

document.addEventListener('DOMContentLoaded', () => {
  document.querySelector('.navbar-brand').tabIndex = -1;   // the sidebar's first link leads there, too
  oneStop(document.querySelector('.bd-docs-nav'), '↑', '↓');
  const buttons = document.querySelector('.header-article-items');
  buttons.setAttribute('role', 'toolbar');
  oneStop(buttons, '←', '→');
});
