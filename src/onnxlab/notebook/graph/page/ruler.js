// Text sizes without laying out the page. Netron asks the browser for the size of every label, one by one,
// each time with the whole graph in the document; here each distinct text is measured once, in a drawing of its own.

// Whether a label was measured while the frame was hidden, where all have the size 0.
let unmeasured = false;

// Replaces the browser's way to measure labels; returns what tells whether they can be measured now.
const useRuler = () => {
  const ruler = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  ruler.style.cssText = 'position: absolute; width: 0; height: 0; overflow: hidden; visibility: hidden';
  document.body.append(ruler);
  const sizes = new Map();
  const measure = SVGGraphicsElement.prototype.getBBox;
  const probe = document.createElementNS('http://www.w3.org/2000/svg', 'text');
  probe.textContent = 'M';
  ruler.append(probe);
  const isShown = () => measure.call(probe).width > 0;
  SVGTextElement.prototype.getBBox = function () {
    const around = this.parentNode?.getAttribute('class') ?? '';
    const kind = ['node-argument', 'node-item'].find((name) => around.includes(name)) ?? this.getAttribute('class') ?? '';
    const key = `${kind}\n${this.querySelector('tspan')?.style.fontWeight ?? ''}\n${this.textContent}`;
    if (!sizes.has(key)) {
      const group = document.createElementNS('http://www.w3.org/2000/svg', 'g');
      group.setAttribute('class', kind);
      const copy = this.cloneNode(true);
      for (const place of ['x', 'y', 'transform']) copy.removeAttribute(place);
      group.append(copy);
      ruler.append(group);
      const { x, y, width, height } = measure.call(copy);
      if (!width && !isShown()) unmeasured = true;
      sizes.set(key, { x, y, width, height });
      group.remove();
    }
    return sizes.get(key);
  };
  return isShown;
};
