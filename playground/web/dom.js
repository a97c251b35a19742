/** Small helpers for the document. */

/** @param {string} id @returns {any} */
export const byId = (id) => document.getElementById(id);

/**
 * Makes an element: make('button', { class: 'x', onclick: f }, 'text', child).
 * Names that begin with "on" are listeners; null and undefined are left out.
 * @returns {any}
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Sets a text only where it changed, so that nothing is laid out again for nothing. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Copies a text, and says so on the button for a moment. */
export async function copyText(button, text) {
  const label = button.dataset.label ?? (button.dataset.label = button.textContent);
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'copied';
  } catch {
    button.textContent = 'not allowed';
  }
  setTimeout(() => (button.textContent = label), 1500);
}

/** Calls f at the next frame, once, however often it is asked. */
export function atNextFrame(f) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      f();
    });
  };
}

export const stillness = matchMedia('(prefers-reduced-motion: reduce)');
