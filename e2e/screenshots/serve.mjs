// Serves the built page, the committed boards and Prometheus' API on one
// loopback address.
import { createReadStream, existsSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { once } from 'node:events';

const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json', '.woff2': 'font/woff2', '.woff': 'font/woff' };

export async function serve({ page, boards, prometheus }) {
  const server = createServer((req, res) => {
    const { pathname } = new URL(req.url, 'http://loopback');
    if (pathname.startsWith('/api/')) return forward(req, res, prometheus);
    const file = pathname.startsWith('/boards/') ? join(boards, normalize(pathname.slice('/boards'.length))) : join(page, normalize(pathname === '/' ? '/index.html' : pathname));
    if (!existsSync(file)) return res.writeHead(404).end();
    res.writeHead(200, { 'content-type': types[extname(file)] ?? 'application/octet-stream' });
    createReadStream(file).pipe(res);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

function forward(req, res, prometheus) {
  const to = request(prometheus + req.url, { method: req.method, headers: req.headers }, (answer) => {
    res.writeHead(answer.statusCode, answer.headers);
    answer.pipe(res);
  });
  to.on('error', (error) => res.writeHead(502).end(error.message));
  req.pipe(to);
}
