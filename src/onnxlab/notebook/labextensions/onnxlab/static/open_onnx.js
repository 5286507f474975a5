// A double click on an .onnx file in JupyterLab's file browser runs graph(file) in a console: it is the notebook's
// graph, whose weights are read on request, and doctor(file) can be the next line. There is no build step: this is
// the container that webpack would make, and JupyterLab's own modules come from the scope that it shares.
(globalThis._JUPYTERLAB ??= {}).onnxlab = (() => {
  let scope;
  const shared = async (name) => (await Object.values(scope[name])[0].get())();

  const showGraph = async (app, path) => {
    const folder = path.slice(0, path.lastIndexOf('/') + 1), file = path.slice(folder.length);
    // The kernel starts in the folder, so that the file's name is enough. A string of JSON is one of Python, too.
    const place = { basePath: folder.slice(0, -1), name: file };
    const panel = await app.commands.execute('console:create', { ...place, kernelPreference: { name: 'python3', autoStartDefault: true } });
    await panel.sessionContext.ready;
    const chinese = document.documentElement.lang.startsWith('zh');
    const names = `from onnxlab import doctor, graph${chinese ? ', speak' : ''}`;
    await panel.console.inject([names, ...(chinese ? ['speak("zh")'] : []), `graph(${JSON.stringify(file)})`].join('\n'));
  };

  const extension = async () => {
    const { ABCWidgetFactory, Base64ModelFactory, DocumentWidget } = await shared('@jupyterlab/docregistry');
    const { Widget } = await shared('@lumino/widgets');

    // JupyterLab reads no content for a format of null: a model may have gigabytes.
    class Unread extends Base64ModelFactory {
      get name() { return 'onnxlab-unread'; }
      get fileFormat() { return null; }
    }
    // JupyterLab opens a file in a document's tab. This tab closes as soon as the console has taken over.
    class GraphFactory extends ABCWidgetFactory {
      constructor(options, app) { super(options); this.app = app; }
      createNewWidget(context) {
        const document = new DocumentWidget({ content: new Widget(), context });
        showGraph(this.app, context.path).finally(() => document.dispose());
        return document;
      }
    }
    return {
      id: 'onnxlab:open',
      description: 'Shows the graph of an .onnx file.',
      autoStart: true,
      activate: (app) => {
        app.docRegistry.addFileType({ name: 'onnx', displayName: 'ONNX', extensions: ['.onnx'], mimeTypes: ['application/octet-stream'], fileFormat: 'base64' });
        app.docRegistry.addModelFactory(new Unread());
        app.docRegistry.addWidgetFactory(new GraphFactory({ name: 'ONNX', modelName: 'onnxlab-unread', fileTypes: ['onnx'], defaultFor: ['onnx'], readOnly: true }, app));
      },
    };
  };

  return {
    init: (share) => { scope = share; },
    get: async () => { const plugin = await extension(); return () => ({ __esModule: true, default: plugin }); },
  };
})();
