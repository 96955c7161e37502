// An authorization server (oidc-provider) for MCP servers: node authorization_server.mjs MODULES FOLDER PORT SECONDS.
//
// Everybody signs in with a form and consents with another; clients register themselves. Access tokens are JWTs that
// live for SECONDS, and each use of a refresh token replaces it: a second use of one ends its grant. What it knows is in
// FOLDER, so that a server that is started again knows it too. FOLDER/log.jsonl has a line for each consent, refresh and
// refusal, FOLDER/secrets one for each token, code and secret that it gave away. POST /accounts/NAME/revoke ends the
// grants of an account. SIGTERM lets it answer what it has begun.
import { createHash, generateKeyPairSync, randomBytes } from "node:crypto";
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const [modules, folder, port, seconds] = process.argv.slice(2);
const { default: Provider } = await import(pathToFileURL(`${modules}/node_modules/oidc-provider/lib/index.js`));
const issuer = `http://127.0.0.1:${port}`;

const note = (line) => appendFileSync(`${folder}/log.jsonl`, `${JSON.stringify(line)}\n`);
const keepSecret = (text) => text && appendFileSync(`${folder}/secrets`, `${text}\n`);
const shortHash = (text) => text && createHash("sha256").update(text).digest("hex").slice(0, 16);

function readKeys() {
  const file = `${folder}/keys.json`;
  if (!existsSync(file)) {
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const jwk = { ...privateKey.export({ format: "jwk" }), kid: "key-1", alg: "ES256", use: "sig" };
    writeFileSync(file, JSON.stringify({ jwks: { keys: [jwk] }, cookies: [randomBytes(32).toString("hex")] }));
  }
  return JSON.parse(readFileSync(file));
}

// Entries in memory, and a file of all changes from which they are read again.
const entries = new Map();
const changes = `${folder}/entries.jsonl`;
function change(key, payload) {
  appendFileSync(changes, `${JSON.stringify([key, payload ?? null])}\n`);
  if (payload) entries.set(key, payload);
  else entries.delete(key);
}
if (existsSync(changes)) {
  for (const line of readFileSync(changes, "utf-8").split("\n").filter(Boolean)) {
    const [key, payload] = JSON.parse(line);
    if (payload) entries.set(key, payload);
    else entries.delete(key);
  }
}

class Entries {
  constructor(model) {
    this.model = model;
  }
  key(id) {
    return `${this.model}:${id}`;
  }
  find(id) {
    return Promise.resolve(entries.get(this.key(id)));
  }
  findBy(name, value) {
    return Promise.resolve([...entries].find(([key, one]) => key.startsWith(`${this.model}:`) && one[name] === value)?.[1]);
  }
  findByUid(uid) {
    return this.findBy("uid", uid);
  }
  findByUserCode(userCode) {
    return this.findBy("userCode", userCode);
  }
  async upsert(id, payload) {
    change(this.key(id), payload);
  }
  async consume(id) {
    change(this.key(id), { ...entries.get(this.key(id)), consumed: Math.floor(Date.now() / 1000) });
  }
  async destroy(id) {
    change(this.key(id), null);
  }
  async revokeByGrantId(grantId) {
    for (const [key, payload] of [...entries]) if (payload.grantId === grantId) change(key, null);
  }
}

const provider = new Provider(issuer, {
  ...(({ jwks, cookies }) => ({ jwks, cookies: { keys: cookies } }))(readKeys()),
  adapter: Entries,
  clientDefaults: { id_token_signed_response_alg: "ES256" },
  scopes: ["openid", "use"],
  ttl: { AccessToken: Number(seconds), Grant: 86400, Session: 86400, RefreshToken: 86400, Interaction: 600, IdToken: 600 },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  issueRefreshToken: async (_, client) => client.grantTypeAllowed("refresh_token"),
  rotateRefreshToken: () => true,
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, resource) => ({
        scope: "use",
        audience: resource,
        accessTokenFormat: "jwt",
        accessTokenTTL: Number(seconds),
        jwt: { sign: { alg: "ES256" } },
      }),
    },
  },
});

provider.on("authorization_code.saved", (code) => keepSecret(code.jti));
provider.on("server_error", (_, error) => note({ event: "server_error", at: Date.now(), error: String(error.stack) }));
provider.use(async (ctx, next) => {
  const started = Date.now();
  await next();
  const body = ctx.body ?? {};
  for (const name of ["access_token", "refresh_token", "id_token", "client_secret", "registration_access_token"]) keepSecret(body[name]);
  if (ctx.oidc?.route === "registration") note({ event: "registered", at: started, status: ctx.status });
  if (ctx.oidc?.route !== "token") return;
  const { Account, Client, RefreshToken, RotatedRefreshToken } = ctx.oidc.entities;
  note({
    event: ctx.oidc.params?.grant_type,
    account: Account?.accountId,
    client: Client?.clientId,
    started,
    ended: Date.now(),
    status: ctx.status,
    error: body.error_description ?? body.error,
    used: shortHash(RotatedRefreshToken?.jti ?? (ctx.status === 200 ? undefined : RefreshToken?.jti)),
  });
});

const answer = provider.callback();
const server = createServer(async (request, response) => {
  const [, account] = request.url.match(/^\/accounts\/([^/]+)\/revoke$/) ?? [];
  if (!account) return answer(request, response);
  const grants = [...entries].filter(([key, one]) => key.startsWith("Grant:") && one.accountId === decodeURIComponent(account));
  for (const [key, grant] of grants) {
    change(key, null);
    await new Entries("RefreshToken").revokeByGrantId(grant.jti);
  }
  response.end(JSON.stringify({ revoked: grants.length }));
});
server.listen(Number(port), "127.0.0.1", () => console.log(JSON.stringify({ issuer })));
process.on("SIGTERM", () => {
  server.close(() => process.exit());
  server.closeIdleConnections();
});
