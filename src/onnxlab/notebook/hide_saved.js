// Hides the saved form above a live one in any front end: rules of CSS for that know JupyterLab's classes only.

// Hide the last saved form before `el`; return what shows it again. A widget is rendered before it is in the page.
const hideSaved = (el, selector) => {
  let output = null, ended = false;
  const hide = () => {
    if (ended) return;
    if (!el.isConnected) { requestAnimationFrame(hide); return; }
    const precedes = (saved) => saved.compareDocumentPosition(el) & Node.DOCUMENT_POSITION_FOLLOWING;
    const saved = [...el.getRootNode().querySelectorAll(selector)].filter(precedes).at(-1);
    output = saved?.parentElement.contains(el) ? saved : saved?.parentElement;   // with its notes
    if (output) output.style.display = 'none';
  };
  hide();
  return () => {
    ended = true;
    if (output) output.style.display = '';
  };
};
