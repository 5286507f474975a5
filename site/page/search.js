// The theme's search box, answered by Pagefind: its index is cut into pieces, and knows Chinese words.

const here = document.currentScript.src;
const site = new URL('../../', here);   // the folder of both languages
const tr = (text) => globalThis.onnxlabWords[text] ?? text;
const MOST = 12;

const index = () => (globalThis.onnxlabPagefind ??= import(new URL('pagefind/pagefind.js', site).href));

// Pagefind shortens a word that it does not know until something begins with it, and splits Chinese words at other
// places than its index does: a page is shown only if it contains each word (of a longer word, its first four letters).
const has = (page, query) => query.toLowerCase().split(/\s+/).every((word) =>
  page.content.toLowerCase().includes(word.slice(0, 4)) || page.meta.title.toLowerCase().includes(word.slice(0, 4)));

// What people type, and what the course says.
const alike = (query) => {
  const synonyms = globalThis.onnxlabWords.synonyms ?? {};
  const typed = query.toLowerCase();
  return [query, ...Object.keys(synonyms).filter((word) => typed.includes(word)).map((word) => typed.replace(word, synonyms[word]))];
};

const pagesWith = async (query) => {
  const pagefind = await index();
  const byId = new Map();
  const queries = alike(query);
  for (const words of queries.flatMap((same) => /[\u3400-\u9fff]/.test(same) ? [same, same[0]] : [same])) {
    const { results } = await pagefind.search(words);
    for (const result of results.slice(0, 3 * MOST)) if (!byId.has(result.id)) byId.set(result.id, result);
  }
  const pages = await Promise.all([...byId.values()].map((result) => result.data()));
  const titled = (page) => queries.some((same) => page.meta.title.toLowerCase().includes(same.toLowerCase()));
  return pages.filter((page) => queries.some((same) => has(page, same))).sort((a, b) => titled(b) - titled(a)).slice(0, MOST);
};

// The sections of a page in which it was found; the whole page counts only if no section has the words.
const parts = (page) => {
  const sections = page.sub_results.filter((part) => part.url.includes('#'));
  return (sections.length ? sections : [page]).slice(0, 2);
};

const entry = ({ url, meta, excerpt }) => {
  const link = document.createElement('a');
  link.href = url;   // Pagefind knows the site's own path
  const title = document.createElement('strong');
  title.textContent = meta.title;
  const text = document.createElement('span');
  text.innerHTML = excerpt;   // from our own pages, with <mark> around what was found
  link.append(title, text);
  const item = document.createElement('li');
  item.append(link);
  return item;
};

document.addEventListener('DOMContentLoaded', () => {
  const dialog = document.getElementById('pst-search-dialog');
  const field = dialog.querySelector('input');
  const list = dialog.querySelector('ul');
  const status = dialog.querySelector('[role=status]');
  let searches = 0;
  const search = async () => {
    const query = field.value.trim();
    const mine = ++searches;
    if (!query) { list.replaceChildren(); status.textContent = ''; return; }
    try {
      const pages = await pagesWith(query);
      if (mine !== searches) return;   // somebody typed on meanwhile
      list.replaceChildren(...pages.flatMap((page) => parts(page).map((part) =>
        entry({ url: part.url, excerpt: part.excerpt, meta: { title: part.title && part.title !== page.meta.title ? `${page.meta.title}: ${part.title}` : page.meta.title } }))));
      status.textContent = pages.length ? '' : tr('Nothing found.');
    } catch {
      status.textContent = location.protocol === 'file:'
        ? tr('Search needs a web server: a browser does not let a page on a disk read its index.')
        : tr('The search index could not be loaded.');
    }
  };
  field.addEventListener('input', search);
  dialog.querySelector('form').addEventListener('submit', (event) => { event.preventDefault(); list.querySelector('a')?.click(); });
  dialog.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const stops = [field, ...list.querySelectorAll('a')];
    const at = stops.indexOf(document.activeElement) + step;
    stops[Math.min(Math.max(at, 0), stops.length - 1)].focus();
  });
  if (location.pathname.endsWith('/search.html')) {
    dialog.showModal();
    field.value = new URLSearchParams(location.search).get('q') ?? '';
    search();
  }
  dialog.addEventListener('click', (event) => { if (event.target.closest('a')) dialog.close(); });
});
