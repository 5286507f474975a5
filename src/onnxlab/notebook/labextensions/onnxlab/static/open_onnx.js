// A double click on an .onnx file in JupyterLab's file browser runs graph(file) in a console: it is the notebook's
// graph, whose weights are read on request, and doctor(file) can be the next line. There is no build step: this is
// the container that webpack would make, and JupyterLab's own modules come from the scope that it shares.
(globalThis._JUPYTERLAB ??= {}).onnxlab = (() => {
  const here = document.currentScript.src;
  let scope;
  const shared = async (name) => (await Object.values(scope[name])[0].get())();

  const fileOf = ({ sessionContext }) => `${sessionContext.path.slice(0, sessionContext.path.lastIndexOf('/') + 1)}${sessionContext.name}`;

  // The kernel starts in the folder, so that the file's name is enough. A string of JSON is one of Python, too.
  const runGraph = async (panel) => {
    await panel.sessionContext.ready;
    const chinese = document.documentElement.lang.startsWith('zh');
    const names = `from onnxlab import doctor, graph${chinese ? ', speak' : ''}`;
    const call = `graph(${JSON.stringify(panel.sessionContext.name)})`;
    await panel.console.inject([names, ...(chinese ? ['speak("zh")'] : []), call].join('\n'));
  };

  const showGraph = async (app, consoles, path) => {
    const open = consoles?.find((panel) => fileOf(panel) === path);
    if (open) { app.shell.activateById(open.id); return; }
    const name = path.slice(path.lastIndexOf('/') + 1);
    const place = { basePath: path.slice(0, -name.length - 1), name };
    await runGraph(await app.commands.execute('console:create', { ...place, kernelPreference: { name: 'python3', autoStartDefault: true } }));
  };

  // A widget whose kernel has ended: the saved report above it says what there is to know, so that its buttons, which do
  // nothing now, go, and what is still to be seen, as a graph, is not marked as broken.
  const ENDED = `
    .jp-OutputArea-child:has(.jupyter-button.jupyter-widgets-disconnected) { display: none; }
    .jupyter-widgets-disconnected::before { display: none !important; }`;

  // JupyterLab restores a console without what was in it, and only then: the graph is drawn again, unless the file is gone.
  const restoreGraphs = (app, consoles) => {
    let restoring = true;
    app.restored.then(() => { restoring = false; });
    consoles.widgetAdded.connect(async (_, panel) => {
      if (!restoring || !panel.sessionContext.name.endsWith('.onnx')) return;
      const there = await app.serviceManager.contents.get(fileOf(panel), { content: false }).catch(() => null);
      if (there) { await runGraph(panel); return; }
      await panel.sessionContext.shutdown();
      panel.dispose();
    });
  };

  const extension = async () => {
    const { IConsoleTracker } = await shared('@jupyterlab/console');
    const { ABCWidgetFactory, Base64ModelFactory, DocumentWidget } = await shared('@jupyterlab/docregistry');
    const { Widget } = await shared('@lumino/widgets');

    // JupyterLab reads no content for a format of null: a model may have gigabytes.
    class Unread extends Base64ModelFactory {
      get name() { return 'onnxlab-unread'; }
      get fileFormat() { return null; }
    }
    // JupyterLab opens a file in a document's tab. This tab closes as soon as the console has taken over.
    class GraphFactory extends ABCWidgetFactory {
      constructor(options, show) { super(options); this.show = show; }
      createNewWidget(context) {
        const document = new DocumentWidget({ content: new Widget(), context });
        this.show(context.path).finally(() => document.dispose());
        return document;
      }
    }
    return {
      id: 'onnxlab:open',
      description: 'Shows the graph of an .onnx file.',
      autoStart: true,
      optional: [IConsoleTracker],
      activate: (app, consoles) => {
        document.head.append(Object.assign(document.createElement('style'), { textContent: ENDED }));
        if (consoles) restoreGraphs(app, consoles);
        app.docRegistry.addFileType({ name: 'onnx', displayName: 'ONNX', extensions: ['.onnx'], mimeTypes: ['application/octet-stream'], fileFormat: 'base64' });
        app.docRegistry.addModelFactory(new Unread());
        app.docRegistry.addWidgetFactory(new GraphFactory({ name: 'ONNX', modelName: 'onnxlab-unread', fileTypes: ['onnx'], defaultFor: ['onnx'], readOnly: true }, (path) => showGraph(app, consoles, path)));
      },
    };
  };

  return {
    init: (share) => { scope = share; },
    get: async () => {
      const panel = import(new URL('course_panel.js', here)).then((course) => course.extension(shared));
      const plugins = [await extension(), ...await panel.then((plugin) => [plugin], () => [])]; // a graph opens without it
      return () => ({ __esModule: true, default: plugins });
    },
  };
})();
