// What a card shows of an example: fetched and drawn once the card comes near the view.
import type { RefObject } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { isDark } from '../../shell/theme';
import { casesOf, example, picturesOf, type Entry, type Example, type Picture } from './examples';

export interface Face {
  of: Example | null; // null: on its way
  pictures: Picture[];
  first: number; // the case that the first picture is of, else the first
  isComplete: boolean; // whether there is nothing more to wait for; without a picture it has numbers alone
  fault: string;
  width: number; // of the card, CSS pixels; 0: not measured yet
}

export function useExample(entry: Entry, card: RefObject<HTMLElement | null>): Face {
  const seen = useRef(false);
  const [near, setNear] = useState(false);
  const [of, setOf] = useState<Example | null>(null);
  const [pictures, setPictures] = useState<Picture[] | null>(null);
  const [fault, setFault] = useState('');
  const [width, setWidth] = useState(0);
  const dark = isDark.value;
  useEffect(() => {
    const watch = new IntersectionObserver(
      ([found]) => {
        seen.current = found?.isIntersecting ?? false;
        if (seen.current) setNear(true);
      },
      { rootMargin: '150px' },
    );
    const size = new ResizeObserver(([found]) => {
      if (found) setWidth(found.contentRect.width);
    });
    if (card.current) {
      watch.observe(card.current);
      size.observe(card.current);
    }
    return () => {
      seen.current = false;
      watch.disconnect();
      size.disconnect();
    };
  }, []);
  useEffect(() => {
    if (!near) return undefined;
    let here = true;
    void (async () => {
      try {
        const found = await example(entry, () => seen.current);
        if (here) setOf(found);
        const made = await picturesOf(found, dark, () => seen.current);
        if (here) setPictures(made);
      } catch (error) {
        if (here) setFault((error as Error).message);
      }
    })();
    return () => {
      here = false;
    };
  }, [near, dark]);
  const drawn = pictures?.[0]?.of;
  return {
    of,
    pictures: pictures ?? [],
    first: of && drawn ? casesOf(of).indexOf(drawn) : 0,
    isComplete: pictures !== null || fault !== '',
    fault,
    width,
  };
}
