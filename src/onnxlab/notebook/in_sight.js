// Brings what was just put out into sight: Shift+Enter scrolls on to the next cell, and a button's answer appears below it.

const SETTLING = 2500; // milliseconds after the end of a run in which what stands around it may still move

const isRunning = (cell) => cell?.querySelector('.jp-InputPrompt')?.textContent.includes('*');

// The verdict, if its cell is the active one or Shift+Enter left it for the next one: not while many cells are
// run, and not once the reader has gone on.
const verdictOf = (cell, selector) => {
  const active = cell?.parentElement?.querySelector(':scope > .jp-mod-active');
  const wasRun = active && (active === cell || (active === cell.nextElementSibling && !isRunning(active)));
  return wasRun ? [...cell.querySelectorAll(selector)].at(-1) : null;
};

// The cell that was run last, of the active one and the one before it.
const cellJustRun = (notebook) => {
  const active = notebook?.querySelector('.jp-Cell.jp-mod-active');
  const count = (cell) => (isRunning(cell) ? Infinity : parseInt(cell?.querySelector('.jp-InputPrompt')?.textContent.slice(1), 10) || 0);
  const before = active?.previousElementSibling;
  return count(before) > count(active) ? before : active;
};

// Keep what `find` returns in sight until all has settled, or until the reader does anything.
const bringIntoSight = (find) => {
  let until = Date.now() + SETTLING, left = false;
  const leave = () => { left = true; };
  const acts = ['wheel', 'keydown', 'pointerdown', 'touchstart'];
  acts.forEach((act) => document.addEventListener(act, leave, { capture: true, passive: true }));
  const look = () => {
    const node = left ? null : find();
    const frame = node?.closest('.jp-WindowedPanel-outer, .jp-Notebook');
    if (frame) {
      if (isRunning(node.closest('.jp-Cell'))) until = Date.now() + SETTLING;
      const [inside, outside] = [node, frame].map((part) => part.getBoundingClientRect());
      const above = inside.top - outside.top - 8, below = inside.bottom - outside.bottom + 8;
      if (above < 0) frame.scrollTop += above;
      else if (below > 0) frame.scrollTop += Math.min(above, below);
    }
    if (!left && Date.now() < until) setTimeout(look, 100);
    else acts.forEach((act) => document.removeEventListener(act, leave, { capture: true }));
  };
  look();
};

// The verdict on a question stands in the cell that reveals it; the question itself may be out of sight.
const bringVerdictIntoSight = (selector) => {
  const notebook = [...document.querySelectorAll('.jp-Notebook')].find((candidate) => candidate.offsetParent);
  bringIntoSight(() => verdictOf(cellJustRun(notebook), selector));
};
