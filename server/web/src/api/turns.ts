// Over HTTP/1.1 browsers allow six connections to a host, for all tabs together. Requests that may
// take long leave some of the connections free in every tab, so that the values under the pointer
// arrive at once.
const AT_ONCE = 4;
let next = 0;

// Begins `work` when fewer than four others are under way in all tabs of this origin.
export function inTurn<T>(work: () => Promise<T>, stop: AbortSignal): Promise<T> {
  // Over plain HTTP from another machine there are no locks: then each tab counts for itself.
  if (!('locks' in navigator)) return work();
  return navigator.locks.request(`attnd long ${next++ % AT_ONCE}`, { signal: stop }, work) as Promise<T>;
}
