// The course at the left of JupyterLab: where to go on, how one stands with each chapter and lab, the next hint, and what
// an error message means. onnxlab/course/panel.py says what is shown, in the language of the menus; nothing is asked of it
// before the panel is in sight. In Notebook 7: View, Left Sidebar.

const MARKS = { done: '\u2713', known: '\u2713', begun: '\u25d0', open: '\u25cb' };
const ICON = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path class="jp-icon3 jp-icon-selectable" fill="#616161" d="M3 5.5C6 4.3 9 4.5 11.2 6v13.5C9 18 6 17.8 3 19zm18 0c-3-1.2-6-1-8.2.5v13.5c2.2-1.5 5.2-1.7 8.2-.5z"/></svg>';
const STYLE = `
  .onnxlab-course { overflow-y: auto; outline: none; padding-bottom: 12px; background: var(--jp-layout-color1); color: var(--jp-ui-font-color1); font-size: var(--jp-ui-font-size1); }
  .onnxlab-course :is(h2, p, label, form, pre) { margin: 8px 12px; font-family: inherit; white-space: pre-wrap; overflow-wrap: anywhere; }
  .onnxlab-course :is(h2, summary) { margin: 16px 12px 4px; font-size: inherit; font-weight: 600; }
  .onnxlab-course :is(select, textarea) { box-sizing: border-box; width: 100%; margin: 4px 0; font: inherit; color: inherit; background: var(--jp-layout-color1); border: 1px solid var(--jp-border-color1); }
  .onnxlab-course label { display: block; }
  .onnxlab-course ul { margin: 0; padding: 0; list-style: none; }
  .onnxlab-course-step { display: grid; grid-template-columns: 1.4em 1fr; width: 100%; padding: 5px 12px; border: 0; background: none; color: inherit; font: inherit; line-height: 1.35; text-align: start; cursor: pointer; }
  .onnxlab-course-step small { grid-column: 2; }
  .onnxlab-course-step:hover { background: var(--jp-layout-color2); }
  .onnxlab-course-step[aria-current] { background: var(--jp-layout-color2); box-shadow: inset 3px 0 var(--jp-brand-color1); }
  .onnxlab-course :focus-visible { outline: 2px solid var(--jp-brand-color1); outline-offset: -2px; }`;

const make = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

const lines = (texts) => texts.map((text) => make('p', { textContent: text }));

export const extension = async (shared) => {
  const modules = ['@jupyterlab/application', '@jupyterlab/apputils', '@jupyterlab/coreutils', '@jupyterlab/notebook', '@jupyterlab/services', '@jupyterlab/ui-components', '@lumino/widgets'];
  const [{ ILayoutRestorer }, { ICommandPalette }, { URLExt }, { INotebookTracker }, { ServerConnection }, { LabIcon }, { Widget }] = await Promise.all(modules.map(shared));

  const ask = async (question) => {
    const settings = ServerConnection.makeSettings();
    const address = URLExt.join(settings.baseUrl, 'onnxlab/course') + URLExt.objectToQueryString({ language: document.documentElement.lang.slice(0, 2) });
    const reply = await ServerConnection.makeRequest(address, question ? { method: 'POST', body: JSON.stringify(question) } : {}, settings);
    if (!reply.ok) throw await ServerConnection.ResponseError.create(reply);
    return reply.json();
  };

  class CoursePanel extends Widget {
    constructor(app, notebooks) {
      super();
      Object.assign(this, { id: 'onnxlab-course', app, notebooks });
      Object.assign(this.title, { icon: new LabIcon({ name: 'onnxlab:course', svgstr: ICON }), caption: 'ONNX Lab' });
      this.addClass('onnxlab-course');
      Object.assign(this.node, { role: 'region', ariaLabel: 'ONNX Lab', tabIndex: -1 });
      this.above = make('div');
      this.below = make('div', { onkeydown: (event) => this.step(event) });
      this.hints = make('div', { ariaLive: 'polite' });
      this.node.append(make('style', { textContent: STYLE }), this.above, this.hints, this.why = make('details', { hidden: true }), this.below);
      // A kernel at rest has run a cell, or has kept a prediction or a check. Its status alone would not do: a message of the
      // debugger's channel ends in the middle of a cell, and the cell's own end is then no change of status.
      notebooks?.widgetAdded.connect((_, { sessionContext }) => sessionContext.iopubMessage.connect((_, { content }) => { if (content.execution_state === 'idle') this.update(); }));
      notebooks?.currentChanged.connect(() => this.update());
    }
    onAfterShow() { this.update(); }
    onActivateRequest() { setTimeout(() => this.node.focus()); } // after the palette, which gives the focus back
    onUpdateRequest() { if (this.isVisible) this.load(); }

    async load(question) {
      const turn = this.turn = (this.turn ?? 0) + 1;
      // The translations come from the server, so that this one sentence has none.
      const course = await ask(question).catch((error) => ({ notes: [`The course cannot be read here: ${error.message}`] }));
      if (turn === this.turn) this.render(course);
    }

    render({ notes, summary = [], tracks = [], track, next, steps = [], words }) {
      const { path } = this.notebooks?.currentWidget?.context ?? {};
      const state = JSON.stringify([notes, summary, track, next, steps, path]);
      if (state === this.state) return;
      this.state = state;
      const { activeElement } = document, part = [this.above, this.below].find((one) => one.contains(activeElement));
      const { key } = part ? activeElement.dataset : {}; // a chapter can be in both
      const list = (entries) => make('ul', { role: 'list' }, ...entries.map((entry) => make('li', {}, this.entry(entry, words[entry.state]))));
      const chosen = ({ target }) => this.load({ track: target.value });
      this.above.replaceChildren(...lines([...notes, ...summary]));
      if (words) {
        const select = make('select', { onchange: chosen }, ...tracks.map(([value, name]) => make('option', { value, textContent: name, selected: value === track })));
        select.dataset.key = 'track';
        this.above.append(make('label', {}, words.track, select));
      }
      if (next) {
        this.above.append(make('h2', { textContent: words.next }), list([next]));
        if (next.exercise) {
          const hint = make('button', { type: 'button', className: 'jp-mod-styled jp-mod-reject', textContent: words.hint, onclick: () => this.load({ hint: next.exercise }) });
          hint.dataset.key = 'hint';
          this.above.append(make('p', {}, hint));
        }
      }
      this.hints.replaceChildren(...lines(next?.hints ?? []));
      if (words && this.why.hidden) this.renderWhy(words);
      this.below.replaceChildren(...(steps.length ? [make('h2', { textContent: words.steps }), list(steps)] : []));
      const buttons = [...this.below.querySelectorAll('button')];
      for (const button of buttons) if (button.dataset.key === path) button.ariaCurrent = 'page';
      const stop = buttons.find((button) => button.dataset.key === key) ?? buttons[0];
      for (const button of buttons) button.tabIndex = button === stop ? 0 : -1;
      if (key) (part.querySelector(`[data-key="${CSS.escape(key)}"]`) ?? this.node).focus();
    }

    entry({ path, place = '', title, note, state }, word) {
      const { commands } = this.app, link = 'rendermime:handle-local-link'; // which Notebook 7 does not have
      const open = () => commands.execute(commands.hasCommand(link) ? link : 'docmanager:open', { path, id: place });
      const button = make('button', { type: 'button', className: 'onnxlab-course-step', onclick: open, ariaLabel: [title, note, word].filter(Boolean).join(', ') },
        make('span', { ariaHidden: 'true', textContent: MARKS[state] ?? '\u2192' }), make('span', { textContent: title }), make('small', { textContent: note ?? '' }));
      button.dataset.key = path + place;
      return button;
    }

    // The list has one stop for Tab, and arrows go through it.
    step(event) {
      const buttons = [...this.below.querySelectorAll('button')], at = buttons.indexOf(document.activeElement);
      const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      if (!buttons[to]) return;
      buttons[at].tabIndex = -1;
      buttons[to].tabIndex = 0;
      buttons[to].focus();
    }

    renderWhy(words) {
      const field = make('textarea', { rows: 4, ariaLabel: words.message, placeholder: words.message });
      const said = make('div', { ariaLive: 'polite' });
      const answer = async () => {
        const { before, chapter, after } = await ask({ why: field.value }).catch((error) => ({ before: [error.message], after: [] }));
        said.replaceChildren(...lines(before), ...(chapter ? [this.entry(chapter)] : []), ...lines(after));
      };
      const form = make('form', { onsubmit: (event) => { event.preventDefault(); answer(); } }, field, make('button', { className: 'jp-mod-styled jp-mod-reject', textContent: words.ask }));
      this.why.append(make('summary', { textContent: words.why }), form, said);
      this.why.hidden = false;
    }
  }

  return {
    id: 'onnxlab:course',
    description: 'Shows the course and how one stands with it.',
    autoStart: true,
    optional: [ILayoutRestorer, ICommandPalette, INotebookTracker],
    activate: (app, restorer, palette, notebooks) => {
      const panel = new CoursePanel(app, notebooks);
      app.shell.add(panel, 'left', { rank: 150 }); // below the files and what runs
      restorer?.add(panel, panel.id);
      app.commands.addCommand('onnxlab:course', { label: 'ONNX Lab', execute: () => app.shell.activateById(panel.id) });
      palette?.addItem({ command: 'onnxlab:course', category: 'ONNX Lab' });
    },
  };
};
