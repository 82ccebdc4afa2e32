"""The supervisor: it starts a process for each broker of the machine, restarts those that die, and stops them all."""

import asyncio
import logging
import os
import random
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any, Final, final

from sluicegate.actors.publishing.event_log import LOG_LEVELS
from sluicegate.gateway.config.model import Config
from sluicegate.gateway.machine.channel import Channel, ChannelClosed, Unanswered
from sluicegate.gateway.machine.definitions import Definitions, chosen
from sluicegate.gateway.machine.messages import (
    BEGIN,
    DEFINED,
    DEFINITIONS,
    EMIT,
    FAILED,
    GONE,
    HAND_OVER,
    LEARN,
    LEARN_RELEASED,
    PLACE,
    READY,
    RELEASED,
    RELOAD,
    RESTORED,
    RETIRING,
    STOP,
    WAITING,
    Go,
    Left,
    Start,
)
from sluicegate.gateway.machine.operations.events import MergedEvents
from sluicegate.gateway.machine.operations.machine import MachineOperations
from sluicegate.gateway.machine.operations.placement import Placement
from sluicegate.gateway.machine.shared_memory import make_memory, words_of
from sluicegate.gateway.machine.watchdog import HEARTBEAT_S, Heartbeats, Step
from sluicegate.gateway.node.environment import ProcessUsage, process_usage
from sluicegate.gateway.node.siblings import Holdings, Released
from sluicegate.gateway.observability.metrics.metric import Sample
from sluicegate.gateway.process.brokers import broker_names, config_of_broker, divided, remove_folder
from sluicegate.gateway.process.run import first_commands, warn_of_unusable_listeners
from sluicegate.gateway.process.standalone_ports import StandalonePorts
from sluicegate.gateway.views.errors import CannotStart, opening, reading_configuration
from sluicegate.gateway.views.node.runtime import ReloadView
from sluicegate.messaging.limits.counts import clear_table
from sluicegate.messaging.observability.events import (
    SYSTEM_BROKER_ENDED,
    SYSTEM_BROKER_UNRESPONSIVE,
    SYSTEM_BROKER_UNRESPONSIVE_CLEAR,
    EventKind,
)
from sluicegate.protocols.flow.client.session.session import Backoff
from sluicegate.protocols.transport.listeners import bind
from sluicegate.protocols.transport.passing.passage import Passage, PassageFull, make_pair

DEFINED_S: Final = 15.0  # for all brokers to open their stores, while none takes traffic
LEARN_S: Final = 5.0  # for brokers to take note of another's holdings; one that stands still holds none up for longer
STOP_S: Final = 30.0  # for a broker to stop; a process that has not by then is killed
LOOK_AGAIN_S: Final = 0.2  # whether a retired broker that has nothing left can end
RESTART_FIRST_S, RESTART_MAX_S = 0.2, 30.0  # delays before a broker that has died is started again
MODULE: Final = "sluicegate.gateway.machine.broker"

log = logging.getLogger("sluicegate.machine")


@final
class Broker:
    """One broker as the supervisor sees it: its process, while there is one, and how to reach it."""

    def __init__(self, number: int, name: str, *, is_retired: bool) -> None:
        self.number: Final = number
        self.name: Final = name
        self.is_retired: Final = is_retired  # it runs until the others have what it has
        self.left: Left | None = None  # of a retired one, while it runs
        self.has_ended = False  # for good
        self.process: asyncio.subprocess.Process | None = None
        self.channel: Channel | None = None
        self.passage: Passage | None = None
        self.definitions: Definitions | None = None  # that its store had when it was opened
        self.holdings: Holdings | None = None  # once it has read its spool
        self.endpoints: list[tuple[str, str]] = []
        self.unusable_listeners: dict[str, list[str]] = {}  # on which no client can log in, by message VPN
        self.is_ready = False  # it takes traffic
        self.heartbeats = Heartbeats()
        self.is_in_doubt = False  # whether it has taken a change of what all have alike
        self.config: Config | None = None  # of the machine, as it was told to the broker
        self.restarts_count = 0
        self.unresponsive_count = 0
        self.killed_count = 0
        self.backoff: Final = Backoff(first_s=RESTART_FIRST_S, max_s=RESTART_MAX_S)

    def usage(self) -> ProcessUsage | None:
        """Return memory and processor time; None while there is no process."""
        return None if self.process is None else process_usage(self.process.pid)

    @property
    def absence(self) -> str:
        """Why it cannot be asked: it `is not running`, or `does not answer`; empty while it can."""
        if self.heartbeats.is_unresponsive:
            return "does not answer"
        return "" if self.is_ready else "is not running"

    def doubt(self) -> None:
        """It was not told of a change, or has not answered: if it goes on, it is started again, and made equal."""
        self.is_in_doubt = True

    async def ask(self, verb: str, *arguments: Any) -> Any:
        """Ask the broker. Raises ChannelClosed if it does not run, Unanswered if it hangs, and what it raises.

        So nobody waits for one that hangs, but as long as it takes to find that out.
        """
        if self.heartbeats.is_unresponsive:
            raise Unanswered(verb)
        return await self.ask_patiently(verb, *arguments)

    async def ask_patiently(self, verb: str, *arguments: Any) -> Any:
        """Ask the broker, though it may hang: it will answer later. Raises as `ask`, and Unanswered when it hangs."""
        if self.channel is None:
            raise ChannelClosed(verb)
        return await self.channel.ask(verb, *arguments)


@final
class Supervisor:
    """All brokers of the machine, also retired ones: it is to have fewer, and these still have data."""

    def __init__(self, config: Config, count: int, total: int, *, read: Callable[[], Config]) -> None:
        """Run `count` brokers, and retired ones up to `total`. `read` reads the configuration again."""
        self._config = config
        self._read = read
        self._count: Final = count
        self._names: Final = broker_names(config.node.name, total)
        self.brokers: Final = [
            Broker(number, name, is_retired=number > count) for number, name in enumerate(self._names, 1)
        ]
        self._gone: list[int] = []  # numbers of retired brokers that have ended for good
        self._listener_ports: dict[str, int] = {}  # by name
        self._memory: Final = make_memory(total)  # what brokers use of limits that are the machine's
        self._words: Final = words_of(self._memory)
        self._reserved: list[socket.socket] = []  # hold these ports, and do not listen
        self.changing: Final = asyncio.Lock()  # held by a change of what all brokers have alike
        self._all_restored = asyncio.Event()
        self._stopping = asyncio.Event()
        self._failure: asyncio.Future[CannotStart] = asyncio.get_running_loop().create_future()
        self._tasks: set[asyncio.Task[None]] = set()
        self._reloading = asyncio.Lock()
        self._ports = StandalonePorts(config, emit=self._emit)
        self.events: Final = MergedEvents()

    async def run(self, *, announce: Callable[[list[tuple[str, str]], list[str]], None]) -> int:
        """Run the brokers until SIGTERM or SIGINT; return the exit code.

        `announce` gets names and URLs of all ports, and lines with commands to try. Raises CannotStart when a broker
        cannot begin; then none is left running.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._spawn(self._reload_on_signal()))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
        try:
            await self._reserve_ports()
            await self._ports.bind()
            for broker in self.brokers:
                self._spawn(self._keep_running(broker))
            self._spawn(self._watch())
            await self._until_ready()
            if not self._stopping.is_set():
                self._spawn(self._retire())
                await self._ports.open(MachineOperations(self, events=self.events))
                self._announce(announce)
                await self._stopping.wait()
        finally:
            self._stopping.set()
            await self._stop()
        return 0

    def _announce(self, announce: Callable[[list[tuple[str, str]], list[str]], None]) -> None:
        """Announce the ports, which all brokers serve, and warn of those that admit nobody: all have the same users."""
        first, admin_port = self.brokers[0], self._ports.admin_port
        announce(
            first.endpoints + self._ports.endpoints(), first_commands(self._listener_ports.get("mqtt"), admin_port)
        )
        warn_of_unusable_listeners(first.unusable_listeners, admin_port)

    # --- start ---

    async def _reserve_ports(self) -> None:
        """Find the ports of all listeners, and hold them while brokers come and go. Raises CannotStart."""
        for name, listener in self._config.listeners.enabled().items():
            with opening(f"listeners.{name}", listener.host, listener.port):
                alone = await bind(listener.host, listener.port)  # fails where another program listens
                self._listener_ports[name] = alone[0].getsockname()[1]
                for each in alone:
                    each.close()
                self._reserved += await bind(listener.host, self._listener_ports[name], shares_port=True)

    async def _until_ready(self) -> None:
        """Wait until every broker takes traffic, or all are to stop. Raises CannotStart."""
        while not (self._stopping.is_set() or all(broker.is_ready for broker in self.brokers)):
            if self._failure.done():
                raise self._failure.result()
            await asyncio.sleep(0.01)

    async def _keep_running(self, broker: Broker) -> None:
        """Start a broker, and start it again whenever it ends, until all are to stop."""
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            started_s = loop.time()
            how = await self._run_once(broker)
            if self._stopping.is_set() or broker.has_ended:
                return
            lasted_ms = int((loop.time() - started_s) * 1000)
            delay_ms = broker.backoff.next_ms(lasted_ms, random.random())  # no secret
            text = f"broker {broker.name} has ended ({how}); it is started again in {delay_ms} ms"
            self._report(SYSTEM_BROKER_ENDED, text)
            broker.restarts_count += 1
            self.events.forget(broker.name)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay_ms / 1000)

    async def _run_once(self, broker: Broker) -> str:
        """Run a broker's process to its end; return how it has ended."""
        try:
            process, control, passage = await self._start_process()
        except OSError as error:  # no memory, or no more processes or files for this user
            return error.strerror or str(error)
        broker.process = process
        broker.passage = Passage(passage, take=lambda message, fd: os.close(fd))
        broker.channel = await Channel.over(control, lambda verb, given: self._serve(broker, verb, given))
        broker.heartbeats = Heartbeats()
        try:
            code = await process.wait()
            return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        finally:
            clear_table(self._words, broker.number - 1, len(self._names), keeps_spool=not broker.has_ended)
            broker.is_ready = False
            broker.heartbeats = Heartbeats()
            broker.definitions = None
            broker.holdings = None
            broker.left = None
            broker.process = None
            broker.passage.close()
            broker.channel.close()

    async def _start_process(self) -> tuple[asyncio.subprocess.Process, socket.socket, socket.socket]:
        """Start a broker's process; return it, and our ends of its channel and passage. Raises OSError."""
        with ExitStack() as unused:  # their ends in this process, all of them after a failure
            control, its_control = [unused.enter_context(each) for each in socket.socketpair()]
            passage, its_passage = [unused.enter_context(each) for each in make_pair()]
            flags = ["-P"] if sys.flags.safe_path else []
            fds = (its_control.fileno(), its_passage.fileno(), self._memory)
            process = await asyncio.create_subprocess_exec(
                sys.executable, *flags, "-m", MODULE, *[str(fd) for fd in fds], pass_fds=fds
            )
            return process, socket.socket(fileno=control.detach()), socket.socket(fileno=passage.detach())

    async def _serve(self, broker: Broker, verb: str, given: tuple[Any, ...]) -> object:
        if verb == BEGIN:
            broker.config = self._config
            return Start(broker.number, self._names, self._count, self._config_of(broker))
        if verb == DEFINED:
            return await self._defined(broker, *given)
        if verb == RESTORED:
            return await self._restored(broker, *given)
        if verb == READY:
            broker.endpoints, broker.unusable_listeners = given
            broker.is_ready = True
            log.info("broker %s takes traffic", broker.name)
            return tuple(self._gone)
        if verb == RETIRING:
            self._note_left(broker, *given)
            return None
        if verb == RELEASED:
            await self._released(broker, *given)
            return None
        if verb == PLACE:
            vpn, kind, name = given
            return await Placement(self, vpn).place(broker, kind, name)
        if verb == HAND_OVER:
            vpn, kind, handed, to = given
            return await Placement(self, vpn).hand_over(broker, kind, handed, to)
        assert verb == FAILED, verb
        if not self._failure.done():
            self._failure.set_result(CannotStart(given[0], advice=given[1]))
        log.error("broker %s cannot start: %s", broker.name, given[0])
        return None

    def _config_of(self, broker: Broker) -> Config:
        divided_config = divided(self._config, len(self._names))
        return config_of_broker(divided_config, broker.number, self._count, self._listener_ports)

    async def _defined(self, broker: Broker, own: Definitions) -> Definitions:
        """Return the definitions that a broker has to have: those of one that takes traffic.

        If none does, they are chosen when all have opened their stores. Later than at the first start it does not wait
        for that without end: another broker may not come back.
        """
        loop = asyncio.get_running_loop()
        broker.definitions = own
        until_s = loop.time() + DEFINED_S
        while True:
            async with self.changing:  # until it takes traffic, there is no other change
                broker.is_in_doubt = False
                for other in self.brokers:
                    if not other.absence:
                        with suppress(ChannelClosed):
                            definitions: Definitions = await other.ask(DEFINITIONS)
                            return definitions
            told = [each.definitions for each in self.brokers if each.definitions is not None]
            is_late = self._all_restored.is_set() and loop.time() > until_s
            if len(told) == len(self.brokers) or is_late:
                return chosen(told)
            await asyncio.sleep(0.01)

    async def _restored(self, broker: Broker, holdings: Holdings) -> Go:
        """Have a broker meet the others that run; at the first start, once all have read their spools."""
        broker.holdings = holdings
        await self._tell_others(broker, holdings)
        if all(each.holdings is not None for each in self.brokers):
            self._all_restored.set()
        for each in self.brokers:
            if each is not broker:
                self._meet(broker, each)
        await self._all_restored.wait()
        others = {each.number: each.holdings for each in self.brokers if each is not broker}
        return Go({number: held for number, held in others.items() if held is not None})

    async def _tell_others(self, broker: Broker, holdings: Holdings) -> None:
        """Have the brokers that run know what one has that was started again, before it takes traffic."""
        running = [each for each in self.brokers if each is not broker and each.holdings is not None]
        telling = [asyncio.create_task(self._tell(each, broker.number, holdings)) for each in running]
        if telling:
            await asyncio.wait(telling, timeout=LEARN_S)

    async def _tell(self, other: Broker, number: int, holdings: Holdings) -> None:
        with suppress(ChannelClosed):  # it hears of it when it is started again, or goes on
            await other.ask_patiently(LEARN, number, holdings)

    def _meet(self, one: Broker, other: Broker) -> None:
        """Give two brokers a passage to each other, once both have read their spools."""
        if other.holdings is None or other.passage is None or one.passage is None:
            return
        here, there = make_pair()
        with suppress(PassageFull):
            one.passage.send(str(other.number).encode(), here.detach())
            other.passage.send(str(one.number).encode(), there.detach())

    # --- brokers that hang ---

    async def _watch(self) -> None:
        """Watch the brokers that take traffic. While one starts it may be busy for long, with what its spool has."""
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), HEARTBEAT_S)
            for broker in self.brokers:
                if broker.is_ready and broker.channel is not None and broker.process is not None:
                    settings = self._config.watchdog
                    step = broker.heartbeats.beat(answered=broker.channel.ping(), settings=settings)
                    self._follow(step, broker, broker.channel, broker.process)

    def _follow(self, step: Step | None, broker: Broker, channel: Channel, process: asyncio.subprocess.Process) -> None:
        settings = self._config.watchdog
        if step is Step.UNRESPONSIVE:
            broker.unresponsive_count += 1
            channel.give_up()
            text = f"broker {broker.name} has not answered for {settings.unresponsive_s} s"
            then = f"; it is killed after {settings.kill_s} s" if settings.kill_s else ""
            self._report(SYSTEM_BROKER_UNRESPONSIVE, text + then)
        elif step is Step.CLEAR:
            self._report(SYSTEM_BROKER_UNRESPONSIVE_CLEAR, f"broker {broker.name} answers again")
            if broker.is_in_doubt:
                self._spawn(self._ask_to_stop(broker))
            elif broker.config is not self._config:  # it was not told of a reload
                self._spawn(self._reload_late(broker))
        elif step is Step.DUMP:
            process.send_signal(signal.SIGUSR2)
        elif step is Step.KILL:
            broker.killed_count += 1
            log.error("broker %s has not answered for %d s; it is killed", broker.name, settings.kill_s)
            process.kill()

    async def _reload_late(self, broker: Broker) -> None:
        try:
            await self._reload_broker(broker)
        except Exception as error:
            log.error("broker %s has not taken over the configuration: %r", broker.name, error)

    # --- retired brokers ---

    @staticmethod
    def _note_left(broker: Broker, left: Left) -> None:
        known = () if broker.left is None else broker.left.obstacles
        for obstacle in left.obstacles:
            if obstacle not in known:
                log.warning("retired broker %s still has: %s", broker.name, obstacle)
        broker.left = left

    async def _released(self, broker: Broker, released: Released) -> None:
        """Have all know what a retired broker has no more."""
        held = broker.holdings
        if held is not None:
            broker.holdings = held.without(released)
        for each in self.brokers:
            if each.holdings is None:
                continue  # it hears what the broker has when it has read its spool
            with suppress(ChannelClosed):  # likewise, once it is started again
                await each.ask_patiently(LEARN_RELEASED, broker.number, released)

    async def _retire(self) -> None:
        """End the retired brokers, the last one first, each as soon as it has nothing left."""
        retired = [broker for broker in self.brokers if broker.is_retired]
        if not retired:
            return
        log.info("retired: %s; what they have is moved to the others", ", ".join(each.name for each in retired))
        for broker in reversed(retired):
            while not await self._can_end(broker):
                await asyncio.sleep(LOOK_AGAIN_S)
            await self._end(broker)
        log.info("all retired brokers have ended")

    async def _can_end(self, broker: Broker) -> bool:
        """Return whether a retired broker has nothing left, and nothing is on its way to it."""
        if broker.left is None or broker.left.objects_count or any(each.absence for each in self.brokers):
            return False
        try:
            waiting = [await each.ask(WAITING, broker.name) for each in self.brokers if each is not broker]
        except ChannelClosed:
            return False
        return not any(waiting)

    async def _end(self, broker: Broker) -> None:
        """End a retired broker for good: its process, its data, and what the others know of it."""
        process = broker.process
        broker.has_ended = True
        await self._ask_to_stop(broker)
        if process is not None:
            try:
                await asyncio.wait_for(process.wait(), STOP_S)
            except TimeoutError:
                process.kill()
        self.brokers.remove(broker)
        self._gone.append(broker.number)
        self.events.forget(broker.name)
        try:
            await asyncio.to_thread(remove_folder, self._config.data.path, broker.number)
        except OSError as error:
            log.error("retired broker %s has nothing left, and its folder cannot be removed: %s", broker.name, error)
        for each in self.brokers:
            with suppress(ChannelClosed, CannotStart):  # it hears of it when it is ready
                await each.ask_patiently(GONE, broker.number)
        log.info("retired broker %s has ended: the others have what it had", broker.name)

    # --- reload, stop ---

    async def reload(self) -> list[ReloadView]:
        """Read the configuration, and put it in force in all brokers. Raises Refused."""
        async with self._reloading:
            with reading_configuration():
                config = await asyncio.to_thread(self._read)
                self._ports.reload(config)
            if config.brokers != self._config.brokers:
                log.warning("brokers: needs a restart to take effect")
            self._config = config
            views: list[ReloadView] = []
            for broker in self.brokers:
                with suppress(ChannelClosed):  # it begins with the new one, or is told of it when it answers again
                    views.append(await self._reload_broker(broker))
            return views

    async def _reload_broker(self, broker: Broker) -> ReloadView:
        """Put the configuration in force in one broker. Raises as `ask`."""
        config = self._config
        view: ReloadView = await broker.ask(RELOAD, self._config_of(broker))
        broker.config = config
        return view

    async def _reload_on_signal(self) -> None:
        try:
            await self.reload()
        except Exception as error:  # an invalid file must not stop brokers that run
            log.error("the configuration was not taken over: %s", error)

    async def _stop(self) -> None:
        """Stop all brokers, and wait until their processes have ended."""
        await self._ports.stop()
        for broker in self.brokers:
            if broker.channel is not None:
                self._spawn(self._ask_to_stop(broker))
        running = [broker.process for broker in self.brokers if broker.process is not None]
        waiting = [asyncio.create_task(process.wait()) for process in running]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=STOP_S)
            for process in running if late else ():
                if process.returncode is None:
                    log.error("a broker did not stop within %d s; it is killed", STOP_S)
                    process.kill()
            await asyncio.wait(waiting)
        for each in self._reserved:
            each.close()
        os.close(self._memory)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _ask_to_stop(self, broker: Broker) -> None:
        with suppress(ChannelClosed):
            await broker.ask_patiently(STOP)

    # --- for operators ---

    def samples(self) -> list[Sample]:
        """Return the samples of the supervisor: of its ports, and a few of each broker."""
        samples = self._ports.samples()
        for broker in self.brokers:
            values = {
                "up": float(not broker.absence),
                "restarts_total": broker.restarts_count,
                "unresponsive_total": broker.unresponsive_count,
                "killed_total": broker.killed_count,
            }
            if broker.left is not None:
                values["retiring"] = broker.left.objects_count
            usage = broker.usage()
            if usage is not None:
                values |= {"memory_bytes": usage.memory_bytes, "cpu_seconds_total": usage.cpu_ms_total / 1000}
            samples += [
                Sample(f"sluicegate_broker_{name}", value, broker=broker.name) for name, value in values.items()
            ]
        return samples

    def _report(self, kind: EventKind, text: str) -> None:
        """Report an event of the supervisor."""
        self._spawn(self._emit(kind, text, None))

    async def _emit(self, kind: EventKind, text: str, details: dict[str, str] | None) -> None:
        """Have the first broker that runs emit an event; without one it is in the log of this process."""
        for broker in self.brokers:
            if not broker.absence:
                with suppress(ChannelClosed):
                    await broker.ask(EMIT, kind.name, text, details)
                    return
        log.log(LOG_LEVELS[kind.level], "%s: %s", kind.name, text)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
