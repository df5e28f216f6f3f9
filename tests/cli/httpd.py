"""httpd.py FOLDER LOG PORTFILE: a server on the loopback that misbehaves by the first part of a path. The rest is a file below FOLDER.

    /good/X     with ranges
    /plain/X    without ranges: all of it, whatever was asked for
    /cut/X      the first answer ends in the middle
    /busy/X     503 at first
    /down/X     503 always
    /closed/X   403
    /moved/X    302 to /good/X

A line of LOG for each request: path, the range that was asked for or -, status, bytes sent. PORTFILE is there when it listens."""
import http.server
import os
import sys

FOLDER, LOG, PORTFILE = sys.argv[1:]
seen = set()


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, body=b"", length=None, **headers):
        self.send_response(status)
        for k, v in headers.items():
            self.send_header(k.replace("_", "-"), v)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        with open(LOG, "a") as f:
            f.write("%s %s %d %d\n" % (self.path, self.headers["Range"] or "-", status, len(body)))

    def do_GET(self):
        way, _, name = self.path[1:].partition("/")
        path, again = os.path.join(FOLDER, name), self.path in seen
        seen.add(self.path)
        if way == "moved":
            return self.answer(302, Location="/good/" + name)
        if way == "closed" or way == "down" or (way == "busy" and not again):
            return self.answer(403 if way == "closed" else 503)
        if not os.path.isfile(path):
            return self.answer(404)
        with open(path, "rb") as f:
            all_ = f.read()
        asked = self.headers["Range"]
        if way == "plain" or not asked:
            if way != "cut" or again:
                return self.answer(200, all_)
            self.close_connection = True
            return self.answer(200, all_[:len(all_) // 2], len(all_))
        start = int(asked[len("bytes="):].rstrip("-"))
        if start >= len(all_):
            return self.answer(416, Content_Range="bytes */%d" % len(all_))
        return self.answer(206, all_[start:], Content_Range="bytes %d-%d/%d" % (start, len(all_) - 1, len(all_)))

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(PORTFILE + ".new", "w") as f:
    f.write("%d\n" % server.server_address[1])
os.rename(PORTFILE + ".new", PORTFILE)
server.serve_forever()
