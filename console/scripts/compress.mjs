// Puts a .gz beside every built file that becomes smaller by it; the gateway sends it to browsers that take it.
// The gateway compares length and checksum in the .gz with the file, and sends none that is not of that very file.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { constants, gzipSync } from "node:zlib";

const built = fileURLToPath(new URL("../../src/ferrule/server/console/static", import.meta.url));
const worthIt = /\.(?:css|html|js|json|map|svg|txt|webmanifest)$/;

let plain = 0;
let sent = 0;
for (const entry of readdirSync(built, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile()) continue;
  const path = join(entry.parentPath ?? entry.path, entry.name);
  if (entry.name.endsWith(".gz")) continue;
  const body = readFileSync(path);
  // No time and no file name go into the head: the same sources give the same bytes.
  const small = worthIt.test(entry.name) ? gzipSync(body, { level: constants.Z_BEST_COMPRESSION }) : body;
  plain += body.length;
  if (small.length < body.length) {
    writeFileSync(`${path}.gz`, small);
    sent += small.length;
  } else {
    rmSync(`${path}.gz`, { force: true });
    sent += body.length;
  }
}
console.log(`console: ${(plain / 1000).toFixed(1)} kB, ${(sent / 1000).toFixed(1)} kB as sent`);
