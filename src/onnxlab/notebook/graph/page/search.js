// Finding nodes by operator and by name, wherever they are: opens the groups and bodies around a node that is
// chosen, which Netron's own search, over the visible graph, does not.

const MOST_RESULTS = 60;

// Brings a node into sight: back to the main graph, everything around it opened, selected, scrolled to.
const revealNode = async (view, { node, root, around }) => {
  while (view.activeTarget !== root && view._path.length > 1) await view.popTarget();
  const closed = around.filter((graph) => !view.target.blocks.has(graph));
  if (closed.length > 0) {
    closed.forEach((graph) => view.target.blocks.add(graph));
    await view.refresh();
  }
  let place = null;
  eachBox(view.target, (box, graph) => { if (box.value === node) place = graph; });
  if (place) view.target.scrollTo(place.select([node]));
};

const useSearch = (nodes, find, choose, showProperties) => {
  const box = document.createElement('div');
  box.id = 'onnxlab-search';
  const field = Object.assign(document.createElement('input'), { type: 'text', placeholder: find, ariaLabel: find, spellcheck: false });
  const list = document.createElement('ol');
  box.append(field, list);
  document.body.append(box);
  let results = [], current = -1;

  const mark = (index) => {
    list.children[current]?.classList.remove('current');
    current = index;
    list.children[current]?.classList.add('current');
    list.children[current]?.scrollIntoView({ block: 'nearest' });
    if (results[current]) choose(results[current]);
  };
  const line = ({ node }, index) => {
    const item = document.createElement('li');
    const name = document.createElement('span');
    name.textContent = ` ${node.name}`;
    item.append(node.type.name, name);
    item.title = item.textContent;
    item.addEventListener('click', () => mark(index));
    return item;
  };
  const search = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const hit = ({ node }) => words.every((word) => `${node.type.name} ${node.name}`.toLowerCase().includes(word));
    results = words.length > 0 ? nodes.filter(hit).slice(0, MOST_RESULTS) : [];
    current = -1;
    list.replaceChildren(...results.map(line));
  };
  field.addEventListener('input', search);
  // Netron listens to keys on the document: Backspace leaves a graph, every other key ends the selection.
  field.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') event.stopPropagation();   // Escape closes the properties, too
    if (event.key === 'Enter' && event.shiftKey && results[current]) { showProperties(results[current]); return; }
    const step = { Enter: 1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && results.length > 0) mark((current + step + results.length) % results.length);
    if (event.key === 'Escape') { field.value = ''; search(); }
  });
  document.addEventListener('pointerdown', ({ target }) => { if (!box.contains(target)) list.replaceChildren(); });
  field.addEventListener('focus', search);
};
