// A painter in a worker: the main thread sends tiles and frames, and is told when a frame is drawn.
import { Painter } from './painter';
import type { Answer, Order } from './surface';

let painter: Painter | null = null;

addEventListener('message', ({ data }: MessageEvent<Order>) => {
  if (data.do === 'begin') painter = new Painter(data.canvas, true);
  else if (!painter) return;
  else if (data.do === 'look') painter.look(data.palette);
  else if (data.do === 'clear') painter.clear();
  else if (data.do === 'put') painter.put(data.at, data.codes);
  else if (data.do === 'drop') painter.drop(data.at);
  else if (data.do === 'exact') painter.exact(data.values);
  else postMessage({ did: 'draw', more: painter.draw(data.frame) } satisfies Answer);
});

// Some browsers have canvases of workers for WebGL alone.
if (!new OffscreenCanvas(1, 1).getContext('2d')) throw new Error('this browser paints on the page alone');
postMessage({ did: 'load' } satisfies Answer);
