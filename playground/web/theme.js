/** Dark or light: as the system says, until the button says otherwise. */
import { byId } from './dom.js';

const KEY = 'sluice-theme';
const dark = matchMedia('(prefers-color-scheme: dark)');

/** @param {() => void} changed is called when the colours are others */
export function start(changed) {
  const show = () => {
    const chosen = stored();
    if (chosen) document.documentElement.dataset.theme = chosen;
    else delete document.documentElement.dataset.theme;
    const isDark = (chosen ?? (dark.matches ? 'dark' : 'light')) === 'dark';
    byId('theme').setAttribute('aria-pressed', String(isDark));
    changed();
  };
  byId('theme').addEventListener('click', () => {
    const next = byId('theme').getAttribute('aria-pressed') === 'true' ? 'light' : 'dark';
    store(next === (dark.matches ? 'dark' : 'light') ? null : next);
    show();
  });
  dark.addEventListener('change', show);
  show();
}

/** Storage may be forbidden; then the choice lasts as long as the page. */
let remembered = null;

function stored() {
  try {
    return localStorage.getItem(KEY) ?? remembered;
  } catch {
    return remembered;
  }
}

function store(theme) {
  remembered = theme;
  try {
    if (theme) localStorage.setItem(KEY, theme);
    else localStorage.removeItem(KEY);
  } catch {
    // remembered has it
  }
}
