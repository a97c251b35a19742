import sluice = require('sluice-redis');

const limits = new sluice.Limits({});
limits.listLog('x', { permits: 3, window: 60000 }).allow('ada').then((decision) => console.log(decision.granted));
