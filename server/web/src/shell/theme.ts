// Light, dark or high contrast: the system's choice, or one made by hand, which is remembered.
import { computed, effect, signal } from '@preact/signals';
import { lettersAreKeys, look, theme, type Colours, type Theme } from '../store/state';

const dark = matchMedia('(prefers-color-scheme: dark)');
const contrast = matchMedia('(prefers-contrast: more)');
const systemIsDark = signal(dark.matches);
const systemHasContrast = signal(contrast.matches);
dark.addEventListener('change', () => {
  systemIsDark.value = dark.matches;
});
contrast.addEventListener('change', () => {
  systemHasContrast.value = contrast.matches;
});

export const isDark = computed(
  () => theme.value === 'dark' || (theme.value !== 'light' && systemIsDark.value),
);
export const isContrast = computed(
  () => theme.value === 'contrast' || (theme.value === 'system' && systemHasContrast.value),
);

// The colours of weights. In high contrast the default ones are those that keep their order without hue.
export const colours = computed<Colours>(() => {
  const chosen = look.value.colours;
  return isContrast.value && chosen === 'Blues' ? 'cividis' : chosen;
});

export const remembered = (name: string): string | null => {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
};
export const remember = (name: string, value: string): void => {
  try {
    localStorage.setItem(name, value);
  } catch {
    /* it lasts as long as the page */
  }
};

export function keepTheme(): void {
  const saved = remembered('attnd-theme');
  if (saved && ['system', 'light', 'dark', 'contrast'].includes(saved)) theme.value = saved as Theme;
  lettersAreKeys.value = remembered('attnd-letters') !== 'off';
  effect(() => {
    const { dataset } = document.documentElement;
    dataset.theme = isDark.value ? 'dark' : 'light';
    dataset.contrast = isContrast.value ? 'more' : 'usual';
    remember('attnd-theme', theme.value);
    remember('attnd-letters', lettersAreKeys.value ? 'on' : 'off');
  });
}
