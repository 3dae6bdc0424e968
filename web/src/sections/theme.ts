// Light, dark, or as the system has it. The choice is kept where the browser allows it; a page that
// was opened from a disk may have no storage, and then it lasts as long as the page.

import { h } from '../dom';
import type { Theme } from '../state';

const ORDER: Theme[] = ['auto', 'light', 'dark'];
const KEY = 'latlab-theme';

export function themeButton(): HTMLButtonElement {
  let theme = stored();
  const button = h('button', { type: 'button', class: 'tool theme', 'data-action': 'theme' });
  const show = (): void => {
    if (theme === 'auto') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = theme;
    button.textContent = `Theme: ${theme}`;
  };
  button.addEventListener('click', () => {
    theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length] ?? 'auto';
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // Kept for this page only.
    }
    show();
  });
  show();
  return button;
}

function stored(): Theme {
  try {
    const value = localStorage.getItem(KEY) as Theme | null;
    return value && ORDER.includes(value) ? value : 'auto';
  } catch {
    return 'auto';
  }
}
