// What a screen reader reads of the map: a grid of the full size of the matrix. The document
// contains only one cell of the grid, with its two headers.
import type { Spot } from './types';

export interface GridCell {
  spot: Spot;
  query: string;
  key: string;
  text: string;
  selected: boolean;
}

let grids = 0;

function part(role: string, parent: HTMLElement): { element: HTMLElement; text: Text } {
  const element = document.createElement('div');
  element.setAttribute('role', role);
  const text = document.createTextNode('');
  element.append(text);
  parent.append(element);
  return { element, text };
}

export class Grid {
  private column;
  private row;
  private cell;
  private second: HTMLElement;

  constructor(private element: HTMLElement) {
    const id = `matrix-grid-${++grids}`;
    const box = document.createElement('div');
    box.className = 'hidden';
    const rows = [0, 1].map(() => part('row', box).element);
    const [first, second] = rows as [HTMLElement, HTMLElement];
    first.setAttribute('aria-rowindex', '1');
    this.second = second;
    this.column = part('columnheader', first);
    this.row = part('rowheader', second);
    this.row.element.setAttribute('aria-colindex', '1');
    this.cell = part('gridcell', second);
    this.cell.element.id = id;
    element.setAttribute('role', 'grid');
    element.tabIndex = 0;
    element.append(box);
  }

  extent(queries: number, keys: number, name: string): void {
    this.element.setAttribute('aria-rowcount', String(queries + 1));
    this.element.setAttribute('aria-colcount', String(keys + 1));
    this.element.setAttribute('aria-label', name);
  }

  show({ spot, query, key, text, selected }: GridCell): void {
    const column = String(Math.max(spot.k, 0) + 2);
    this.second.setAttribute('aria-rowindex', String(Math.max(spot.q, 0) + 2));
    this.column.element.setAttribute('aria-colindex', column);
    this.cell.element.setAttribute('aria-colindex', column);
    this.cell.element.setAttribute('aria-selected', String(selected));
    this.column.text.data = key;
    this.row.text.data = query;
    this.cell.text.data = text;
    this.element.setAttribute('aria-activedescendant', this.cell.element.id);
  }
}
