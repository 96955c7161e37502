// An OpenID Connect provider (oidc-provider) that signs access tokens for services: node oidc_provider.mjs FOLDER.
//
// It prints its issuer as a line of JSON. A line on its input is a command, and each is answered with a line:
// "rotate" signs with a new key and publishes the old one too, "withdraw" publishes only the newest key.
// A client's name says what is special about its tokens.
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const entry = `${process.argv[2]}/node_modules/oidc-provider/lib/index.js`;
const { default: Provider } = await import(pathToFileURL(entry));

const AUDIENCE = "https://gateway.example";
const SECRET = "a-secret-for-tests";
const TENANTS = { ann: "acme", eve: "evil" };
const clients = ["ann", "eve", "short", "early", "stranger", "symmetric"].map((id) => ({
  client_id: id,
  client_secret: SECRET,
  grant_types: ["client_credentials"],
  redirect_uris: [],
  response_types: [],
  token_endpoint_auth_method: "client_secret_post",
}));

const keys = [];
function addKey() {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  keys.unshift({ ...privateKey.export({ format: "jwk" }), kid: `key-${randomBytes(6).toString("hex")}`, alg: "ES256", use: "sig" });
}

function makeProvider(issuer) {
  const kid = keys[0].kid;
  return new Provider(issuer, {
    clients,
    jwks: { keys },
    clientDefaults: { id_token_signed_response_alg: "ES256" },
    extraTokenClaims: (_, token) => ({ tenant: TENANTS[token.clientId] ?? "acme" }),
    formats: {
      customizers: {
        jwt: (_, token, parts) => {
          if (token.clientId === "early") parts.payload.nbf = parts.payload.iat + 3600;
          if (token.clientId === "stranger") parts.header = { kid: "a-key-of-nobody" };
        },
      },
    },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => AUDIENCE,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource, client) => ({
          scope: "agent boss",
          audience: resource,
          accessTokenFormat: "jwt",
          accessTokenTTL: client.clientId === "short" ? 3 : 3600,
          jwt: { sign: client.clientId === "symmetric" ? { alg: "HS256", key: Buffer.from(SECRET.repeat(3)) } : { alg: "ES256", kid } },
        }),
      },
    },
  }).callback();
}

let answer;
const server = createServer((request, response) => answer(request, response));
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  addKey();
  answer = makeProvider(issuer);
  console.log(JSON.stringify({ issuer }));
  createInterface({ input: process.stdin })
    .on("line", (command) => {
      if (command === "rotate") addKey();
      if (command === "withdraw") keys.length = 1;
      answer = makeProvider(issuer);
      console.log(JSON.stringify({ done: command }));
    })
    .on("close", () => process.exit());
});
