import sys,time
from p2p_labeldp.deployment.simulated.run import simulate
from p2p_labeldp.deployment.simulated.plan import draw
from dataclasses import replace
t0=time.process_time()
for seed in map(int,sys.argv[2:]):
    t=time.process_time()
    p=draw(seed)
    if sys.argv[1]=="calm": p=replace(p,disasters=(),skews=())
    o=simulate(p)
    print(seed, f"{time.process_time()-t:.2f}s", f"virtual {o.seconds:.0f}", len(o.history.lines), o.history.sha256[:8], [f[:150] for f in o.failures], {k:v[:60] for k,v in o.endings.items() if v!="done"}, len(p.disasters))
    if sys.argv[1]=="trace": print("\n".join(map(str,o.history.lines)))
