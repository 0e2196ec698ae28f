// How requests reach the service: by fetch or, in the static site (site/main.ts), by a call of the
// service that runs in a worker of the page.
export const transport = {
  send: (address: URL | string, init?: RequestInit): Promise<Response> => fetch(address, init),
  reportsUploads: true, // XMLHttpRequest, which says how much of a body was sent, reaches it, too
};
