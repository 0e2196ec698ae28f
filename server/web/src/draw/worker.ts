// A painter in a worker: the main thread sends tiles and frames, and is told when a frame is drawn.
import { Painter } from './painter';
import type { Answer, Order } from './surface';

let painter: Painter | null = null;

addEventListener('message', ({ data }: MessageEvent<Order>) => {
  if (data.do === 'begin') {
    painter = new Painter(data.canvas, true);
    return;
  }
  const more = painter?.obey(data) ?? null;
  if (more !== null) postMessage({ did: 'draw', more } satisfies Answer);
});

// Some browsers have canvases of workers for WebGL alone.
if (!new OffscreenCanvas(1, 1).getContext('2d')) throw new Error('this browser paints on the page alone');
postMessage({ did: 'load' } satisfies Answer);
