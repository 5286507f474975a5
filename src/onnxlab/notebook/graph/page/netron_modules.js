// Netron's modules as plain functions, so that they need neither files nor addresses to be imported from: in the
// frame there is no origin to load from, in QuickJS no loader (see module_script() in netron_files.py).

const netronModules = new Map();

const defineModule = (name, body) => netronModules.set(name, { body });

const requireModule = (path) => {
  const name = path.replace('./', '').replace('.js', '');
  const module = netronModules.get(name);
  if (!module) throw new Error(`Netron asks for its module '${name}', which ONNX Lab does not load.`);
  if (!module.exported) {
    module.exported = {};
    module.body(module.exported);
  }
  return module.exported;
};

// The next require runs the module again, without what it has kept.
const forgetModule = (name) => { netronModules.get(name).exported = undefined; };
