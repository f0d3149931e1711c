// Keeps every file of the page from the first visit on: it works offline, and a new version replaces the old one whole.
// The large parts of the engine are kept by worker.mjs, which unpacks them.

const VERSION = "@VERSION@", FILES = [/* @FILES@ */];

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(VERSION).then((cache) => cache.addAll(FILES)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  const old = (names) => Promise.all(names.filter((name) => name.startsWith("mrclab-") && name !== VERSION).map((name) => caches.delete(name)));
  event.waitUntil(caches.keys().then(old).then(() => self.clients.claim()));
});

self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || url.origin !== self.location.origin) return;
  const wanted = url.pathname.endsWith("/") ? new URL("index.html", url).href : url.href;
  event.respondWith(caches.open(VERSION).then((cache) => cache.match(wanted)).then((kept) => kept ?? fetch(event.request)));
});
