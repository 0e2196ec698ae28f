// A picture of the service on a canvas, since the policy of the page forbids images from memory.
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { Picture } from './examples';

// The factor by which a picture is shrunk so that all of it fits into `room`; at most 1.
export const fitOf = ({ bitmap, scale }: Picture, room: { width: number; height: number }): number =>
  Math.min(1, (room.width * scale) / bitmap.width, (room.height * scale) / bitmap.height);

export function Canvas({ picture, name, size = 1 }: { picture: Picture; name: string; size?: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { bitmap, scale } = picture;
  useLayoutEffect(() => {
    canvas.current?.getContext('2d')?.drawImage(bitmap, 0, 0);
  }, [bitmap]);
  return (
    <canvas
      ref={canvas}
      role="img"
      aria-label={name}
      width={bitmap.width}
      height={bitmap.height}
      style={{
        width: `${(size * bitmap.width) / scale}px`,
        aspectRatio: `${bitmap.width} / ${bitmap.height}`,
      }}
    />
  );
}
