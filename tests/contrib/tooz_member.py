"""A process with one coordinator that does what it reads: `METHOD ARGUMENT…`; it answers each line with JSON."""

import json
import os
import sys

import tooz.coordination


def main() -> None:
    url, member = sys.argv[1], sys.argv[2].encode()
    coordinator = tooz.coordination.get_coordinator(url, member)
    try:
        coordinator.start()
    except tooz.ToozError as error:
        print(json.dumps(f"{type(error).__name__}: {error}"), flush=True)
        return
    print(json.dumps(os.getpid()), flush=True)
    locks = {}
    for line in sys.stdin:
        what, *rest = line.split()
        name = rest[0].encode() if rest else b""
        answer: object = None
        try:
            if what == "join":
                coordinator.join_group_create(name, {"from": member.decode()})
            elif what == "members":
                found = coordinator.get_members_with_capabilities(name).get(20)
                answer = {each.decode(): said for each, said in found.items()}
            elif what == "create":
                coordinator.create_group(name).get(20)
            elif what == "groups":
                answer = sorted(each.decode() for each in coordinator.get_groups().get(20))
            elif what == "acquire":
                lock = locks.setdefault(name, coordinator.get_lock(name))
                answer = lock.acquire(blocking=float(rest[1]) if rest[1:] else False)
            elif what == "owns":
                answer = locks[name].is_still_owner()
            elif what == "release":
                answer = locks[name].release()
            elif what == "stop":
                coordinator.stop()
        except tooz.ToozError as error:
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), flush=True)


main()
