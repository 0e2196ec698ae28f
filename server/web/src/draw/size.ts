// How many device pixels an element has, also where a CSS pixel is 1.25 of them.
import type { Size } from './port';

export interface Measured {
  width: number;
  height: number;
  css: Size;
} // device pixels, CSS pixels

// Calls `take` now and whenever the size changes. Returns a function that ends this.
export function watchSize(element: HTMLElement, take: (size: Measured) => void): () => void {
  const observer = new ResizeObserver(([entry]) => {
    if (!entry) return;
    const { width: w, height: h } = entry.contentRect;
    if (!w || !h) return;
    const css = { width: w, height: h };
    const width = w * devicePixelRatio;
    const height = h * devicePixelRatio;
    const device = entry.devicePixelContentBoxSize?.[0];
    // An emulated screen reports its device pixels as CSS pixels: then the ratio is right, not the box.
    if (device && Math.abs(device.inlineSize - width) < 2 && Math.abs(device.blockSize - height) < 2)
      take({ width: device.inlineSize, height: device.blockSize, css });
    else take({ width: Math.round(width), height: Math.round(height), css });
  });
  let screen: MediaQueryList | null = null;
  const observe = (): void => {
    observer.disconnect();
    try {
      observer.observe(element, { box: 'device-pixel-content-box' });
    } catch {
      // Safari measures CSS pixels alone
      observer.observe(element);
    }
    screen?.removeEventListener('change', observe);
    screen = matchMedia(`(resolution: ${devicePixelRatio}dppx)`);
    screen.addEventListener('change', observe);
  };
  observe();
  return () => {
    observer.disconnect();
    screen?.removeEventListener('change', observe);
  };
}
