// What the documents beside the page share: their style, and the theme that was chosen in the page.
import { effect } from '@preact/signals';
import { isDark, keepTheme } from './shell/theme';
import './plain.css';

export function keepPlainTheme(): void {
  keepTheme();
  effect(() => {
    document.documentElement.classList.toggle('dark-mode', isDark.value);
  });
}
