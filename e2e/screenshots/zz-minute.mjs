import { chromium } from 'playwright-core';
import { mkdirSync } from 'node:fs';
const out='/tmp/minute-page'; mkdirSync(out,{recursive:true});
const base=process.env.BASE||'http://127.0.0.1:18092';
const only=process.env.ONLY;
const err=`Internal error occurred: failed calling webhook "jobs.scheduler.example.com": failed to call webhook: Post "https://scheduler.scheduler.svc:443/x?timeout=5s": no endpoints available for service "scheduler"`;
const P={ incident:'/', webhooks:'/webhooks', changes:'/changes', bootstrap:'/bootstrap',
 one:'/webhooks/validating/legacy-operator/configmaps.legacy.example.com', conv:'/webhooks/conversion/backups.storage.example.com/backups.storage.example.com', ca:'/webhooks/validating/quota/cronjobs.quota.example.com',
 askform:'/ask', ask_error:['ask',err], ask_req:['ask','create pod nginx in namespace default'], ask_refused:['ask','create configmaps -n legacy'], ask_maybe:['ask','update secrets'], ask_obj:['ask','apiVersion: batch/v1\nkind: Job\nmetadata: {name: x, namespace: team}\nspec: {template: {spec: {containers: [{name: a, image: b}], restartPolicy: Never}}}'], ask_nonsense:['ask','why is my pod gone'] };
const V={ d1440:{viewport:{width:1440,height:900}}, p390:{viewport:{width:390,height:844},deviceScaleFactor:1}, dark:{viewport:{width:1440,height:900},colorScheme:'dark'}, nojs:{viewport:{width:1440,height:900},javaScriptEnabled:false}, pdark:{viewport:{width:390,height:844},colorScheme:'dark'} };
const b=await chromium.launch({executablePath:'/usr/bin/chromium',args:['--no-sandbox']});
for (const [v,opt] of Object.entries(V)) { const c=await b.newContext(opt);
 for (const [n,p] of Object.entries(P)) { if (only && !`${n}-${v}`.match(only)) continue;
  const page=await c.newPage();
  if (Array.isArray(p)) { await page.goto(base+'/ask'); await page.fill('form.ask textarea',p[1]); await page.click('form.ask button[type=submit], form.ask button:not(.copy)'); await page.waitForLoadState(); }
  else await page.goto(base+p);
  const w=await page.evaluate(()=>document.documentElement.scrollWidth).catch(()=>0);
  await page.screenshot({path:`${out}/${n}-${v}.png`,fullPage:true});
  console.log(n,v,'scrollWidth',w); await page.close(); }
 await c.close(); }
await b.close();
