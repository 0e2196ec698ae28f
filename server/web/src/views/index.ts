// The views, in the order of their tabs. A view is one file and one line here.
import type { ComponentType } from 'preact';
import * as words from './words'; // the first view comes with the page, the others when they are opened

export interface View {
  Component: ComponentType;
  // Keys that the view answers while it is shown, for the list under "?".
  keys?: readonly (readonly [string, string])[];
}

export interface Entry {
  id: string;
  title: string;
  needs: 'run' | 'nothing'; // whether there must be a run before it is of use
  wide?: boolean; // takes the place of the cell beside it, too
  load: () => Promise<View>;
}

export const views: readonly Entry[] = [
  { id: 'words', title: 'Words', needs: 'run', load: () => Promise.resolve(words) },
  { id: 'hand', title: 'By hand', needs: 'nothing', wide: true, load: () => import('./hand') },
  { id: 'matrix', title: 'Matrix', needs: 'run', load: () => import('./matrix') },
  { id: 'heads', title: 'Heads', needs: 'run', wide: true, load: () => import('./heads') },
  { id: 'stages', title: 'Stages', needs: 'run', load: () => import('./stages') },
  { id: 'compare', title: 'Compare', needs: 'run', wide: true, load: () => import('./compare') },
  { id: 'data', title: 'Own data', needs: 'nothing', wide: true, load: () => import('./data') },
  { id: 'gallery', title: 'Gallery', needs: 'nothing', wide: true, load: () => import('./gallery') },
  { id: 'lessons', title: 'Lessons', needs: 'nothing', wide: true, load: () => import('./lessons') },
];
