"""rangeserver.py FOLDER LOG PORTFILE [CERTIFICATE]: a server on the loopback, with TLS if there is a certificate with its key. The first part of a
path says how it answers; the rest is a file below FOLDER.

    /good/X     ranges, ETag
    /dated/X    ranges, Last-Modified instead of an ETag
    /bare/X     ranges, neither
    /plain/X    no ranges: all of it, whatever was asked for
    /endless/X  no ranges, no length, the end is that of the connection
    /cut/X      breaks off after 30000 bytes of each body
    /cutplain/X as plain, but the first answer breaks off in the middle
    /changed/X  another ETag in each answer
    /resized/X  another total size in each answer
    /long/X     Content-Length is larger than the body
    /short/X    Content-Length is smaller than the range that is promised
    /other/X    sends another range than that asked for
    /slow/X     a byte at a time
    /silent/X   no answer at all
    /header/X   a header without end
    /busy/X     503 to the first request for each path, Retry-After: 1
    /down/X     503 always
    /closed/X   403
    /moved/X    302 to /good/X
    /loop/X     302 to itself
    /tofile/X   302 to the file, as file:
    /toplain/X  302 to the same server, as http:
    /bucket/X   checks the signature (SigV4) of a request: keys AKIDEXAMPLE and secret+key/x, region eu-test-1, service s3

A line of LOG for each answer: path, range or -, status, bytes sent. PORTFILE is there when it listens."""
import hashlib
import hmac
import http.server
import os
import ssl
import sys
import time
import urllib.parse

FOLDER, LOG, PORTFILE = sys.argv[1:4]
REGION, KEY, SECRET = "eu-test-1", "AKIDEXAMPLE", "secret+key/x"
TOKEN = os.environ.get("TEST_TOKEN", "")
seen = {}
PLAIN = ("plain", "endless", "cutplain")


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signature_error(request):
    """The signature as Amazon's documentation defines it ("Create a signed AWS API request"), computed from what arrived."""
    h = request.headers
    words = (h["Authorization"] or "").replace(",", " ").split()
    if not words or words[0] != "AWS4-HMAC-SHA256":
        return "not signed"
    part = dict(w.split("=", 1) for w in words[1:])
    key, date, region, service, end = part["Credential"].split("/")
    if (key, region, service, end) != (KEY, REGION, "s3", "aws4_request"):
        return "wrong scope"
    if h["x-amz-date"][:8] != date or abs(time.time() - time.mktime(time.strptime(h["x-amz-date"], "%Y%m%dT%H%M%SZ")) + time.timezone) > 900:
        return "wrong date"
    if (h["x-amz-security-token"] or "") != TOKEN:
        return "wrong token"
    signed = part["SignedHeaders"].split(";")
    if not {"host", "x-amz-date", "x-amz-content-sha256"} <= set(signed) or (TOKEN and "x-amz-security-token" not in signed):
        return "headers are not signed"
    path, _, query = request.path.partition("?")
    canonical = [request.command, urllib.parse.quote(urllib.parse.unquote(path), safe="/-._~"), query]
    canonical += ["%s:%s" % (name, " ".join(h[name].split())) for name in signed]
    canonical += ["", ";".join(signed), h["x-amz-content-sha256"]]
    digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", h["x-amz-date"], "/".join([date, region, service, end]), digest])
    k = mac(mac(mac(mac(("AWS4" + SECRET).encode(), date), region), service), end)
    return None if hmac.compare_digest(mac(k, text).hex(), part["Signature"]) else "wrong signature"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def note(self, status, sent):
        with open(LOG, "a") as f:
            f.write("%s %s %d %d\n" % (self.path, self.headers["Range"] or "-", status, sent))

    def answer(self, status, body=b"", length=None, **headers):
        self.note(status, len(body))
        self.send_response(status)
        for k, v in headers.items():
            self.send_header(k.replace("_", "-"), v)
        if length is None or length >= 0:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        else:
            self.close_connection = True
        self.end_headers()
        self.wfile.write(body)

    def redirect(self, to):
        self.answer(302, Location=to)

    def misbehave(self, way, name, n):
        """1: the request has been answered."""
        if way == "closed" or way == "down" or (way == "busy" and n == 1):
            self.answer(403 if way == "closed" else 503, b"an explanation\n", Retry_After="1")
        elif way == "moved":
            self.redirect("/good/" + name)
        elif way == "loop":
            self.redirect(self.path)
        elif way == "tofile":
            self.redirect("file://" + os.path.abspath(os.path.join(FOLDER, name)))
        elif way == "toplain":
            self.redirect("http://127.0.0.1:%d/good/%s" % (self.server.server_address[1], name))
        elif way == "silent":
            self.note(0, 0)
            time.sleep(3600)
        elif way == "header":
            self.note(0, 0)
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while True:
                self.wfile.write(b"X-More: " + b"x" * 1000 + b"\r\n")
        else:
            return 0
        return 1

    def do_GET(self):
        way, _, name = urllib.parse.unquote(self.path[1:].partition("?")[0]).partition("/")
        path = os.path.join(FOLDER, name)
        n = seen[self.path] = seen.get(self.path, 0) + 1
        if self.misbehave(way, name, n):
            return
        wrong = signature_error(self) if way == "bucket" else None
        if wrong:
            return self.answer(403, wrong.encode())
        if not os.path.isfile(path):
            return self.answer(404, b"nothing here\n")
        with open(path, "rb") as f:
            all_ = f.read()
        facts = {"Last_Modified": "Tue, 24 Nov 2026 10:00:00 GMT"} if way == "dated" else {"ETag": '"%s"' % hashlib.md5(all_).hexdigest()}
        if way == "changed":
            facts = {"ETag": '"%d"' % n}
        if way == "bare":
            facts = {}
        asked, total = self.headers["Range"], len(all_) + (n if way == "resized" else 0)
        if way in PLAIN or not asked or self.headers["If-Range"] not in (None, facts.get("ETag")):
            body = all_[:len(all_) // 2] if way == "cutplain" and n == 1 else all_
            self.close_connection = way == "cutplain"
            return self.answer(200, body, -1 if way == "endless" else len(all_), **facts)
        first, _, last = asked[len("bytes="):].partition("-")
        first, last = int(first), min(int(last or total), len(all_) - 1)
        if first >= len(all_):
            return self.answer(416, Content_Range="bytes */%d" % total)
        first += way == "other"
        body = all_[first:last + 1]
        facts["Content_Range"] = "bytes %d-%d/%d" % (first, last, total)
        self.close_connection = way in ("cut", "long")
        if way == "slow":
            self.answer(206, body[:1], len(body), **facts)
            for byte in body[1:]:
                time.sleep(.05)
                self.wfile.write(bytes([byte]))
            return None
        length = len(body) + 1000 if way == "long" else len(body) // 2 if way == "short" else len(body)
        return self.answer(206, body[:30000] if way == "cut" else body[:length], length, **facts)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


server = Server(("127.0.0.1", 0), Handler)
if len(sys.argv) > 4:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[4])
    server.socket = context.wrap_socket(server.socket, server_side=True)
with open(PORTFILE + ".new", "w") as f:
    f.write("%d\n" % server.server_address[1])
os.rename(PORTFILE + ".new", PORTFILE)
server.serve_forever()
