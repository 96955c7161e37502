// Writes a .gz file next to every built file that compresses well. The gateway sends it to browsers that accept gzip.
// The gateway compares the length and checksum in the .gz with the file, and ignores a .gz that does not match.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { constants, gzipSync } from "node:zlib";

const outputDirectory = fileURLToPath(new URL("../../src/ferrule/server/console/static", import.meta.url));
const compressible = /\.(?:css|html|js|json|map|svg|txt|webmanifest)$/;

let rawBytes = 0;
let sentBytes = 0;
for (const entry of readdirSync(outputDirectory, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile()) continue;
  const path = join(entry.parentPath ?? entry.path, entry.name);
  if (entry.name.endsWith(".gz")) continue;
  const body = readFileSync(path);
  // The gzip header has no timestamp and no file name, so that equal sources give equal bytes.
  const compressed = compressible.test(entry.name) ? gzipSync(body, { level: constants.Z_BEST_COMPRESSION }) : body;
  rawBytes += body.length;
  if (compressed.length < body.length) {
    writeFileSync(`${path}.gz`, compressed);
    sentBytes += compressed.length;
  } else {
    rmSync(`${path}.gz`, { force: true });
    sentBytes += body.length;
  }
}
console.log(`console: ${(rawBytes / 1000).toFixed(1)} kB, ${(sentBytes / 1000).toFixed(1)} kB as sent`);
