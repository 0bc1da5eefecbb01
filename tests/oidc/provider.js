// A certified OpenID Connect provider for the tests, with its own pages for login and consent.
//
//     node provider.js
//
// It prints its address on one line. Any login and password are accepted. What it tells of people
// and where it may lead back is put to /test/… : the server under test finds its port only later.
//
//     PUT /test/client    {"base": "http://127.0.0.1:1234"}
//     PUT /test/people    {"alice": {"email": "…", "groups": ["…"]}}
import http from 'node:http';
import Provider from 'oidc-provider';

const people = new Map();
let provider;

function configured(base) {
  return {
    clients: [{
      client_id: 'kitemq',
      client_secret: 'a secret, with + and / in it',
      redirect_uris: [`${base}/login/callback`],
      post_logout_redirect_uris: [`${base}/login`],
    }],
    claims: {
      openid: ['sub'],
      profile: ['preferred_username'],
      email: ['email', 'email_verified'],
      groups: ['groups'],
    },
    cookies: { keys: ['only for tests'] },
    ttl: { Interaction: 3600, Session: 3600, Grant: 3600, AccessToken: 3600, IdToken: 3600 },
    pkce: { required: () => true },
    findAccount: (ctx, id) => ({
      accountId: id,
      claims: () => ({ sub: id, preferred_username: id, ...people.get(id) }),
    }),
  };
}

async function read(request) {
  let text = '';
  for await (const chunk of request) text += chunk;
  return JSON.parse(text);
}

async function control(request, response) {
  const told = await read(request);
  if (request.url === '/test/client') {
    provider = new Provider(address(), configured(told.base)).callback();
  } else {
    Object.entries(told).forEach(([name, claims]) => people.set(name, claims));
  }
  response.writeHead(204).end();
}

const server = http.createServer((request, response) => {
  if (request.url.startsWith('/test/')) control(request, response);
  else if (provider) provider(request, response);
  else response.writeHead(503).end();
});
const address = () => `http://127.0.0.1:${server.address().port}`;

// Ends with whoever started it.
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
server.listen(0, '127.0.0.1', () => console.log(address()));
