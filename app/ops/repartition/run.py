"""The stages of a repartition, in order. Each can be interrupted anywhere and repeated.

Before the check has passed, workers are affected only by the seals, which --abandon removes. Progress is recorded on
the layout's topic (app/engine/topics/layout.py), and a repeated command goes on from there.
"""

import contextlib
from collections.abc import Iterator

import msgspec

from app.base.clock import Clock
from app.engine.topics import layout as layouts
from app.engine.topics.layout import Layout
from app.ops.repartition import forwards, readiness
from app.ops.repartition.checking import check
from app.ops.repartition.copying import ChangelogCopy
from app.ops.repartition.errors import NotReady
from app.ops.repartition.ground import Ground
from app.ops.repartition.moves import Moves
from app.ops.repartition.survey import Survey, survey
from app.ops.repartition.switching import switch
from punctual.cli.terminal import say


class RunReport(msgspec.Struct, kw_only=True):
    """The result or the plan: rows by destination and by new partition, and the duration of each stage."""

    state: str
    before: int
    after: int
    changelog: str
    rows: int = 0
    moved: int = 0
    under_way: int = 0
    destinations: dict[str, int] = {}
    partitions: list[int] = []
    seconds: dict[str, float] = {}
    hindrances: list[str] = []

    @property
    def rows_per_s(self) -> float:
        """Rows per second over all stages."""
        return self.rows / max(0.001, sum(self.seconds.values()))


class Repartition:
    """Changes one installation's number of partitions."""

    def __init__(self, ground: Ground, layout: Layout | None) -> None:
        """Go on from `layout`; None if the number of partitions has never changed."""
        self._ground, self._layout = ground, layout
        self._settings, self._after = ground.before.settings, ground.after.settings
        self._run = 1 if layout is None else layout.run + 1
        self._seconds: dict[str, float] = {}

    @classmethod
    async def begun(cls, ground: Ground) -> "Repartition":
        """Return a repartition with the progress that is recorded on the layout's topic."""
        return cls(ground, await layouts.read(ground.before.settings.topics, ground.cluster))

    async def run(self) -> RunReport:
        """Do all remaining stages.

        Raises NotReady or another RepartitionError with what to do.
        """
        readiness.assure_number(self._settings, self._after.topics.partitions)
        layout = self._layout
        if layout is not None and layout.stage == "done" and layout.changelog == self._after.topics.changelog:
            self._ground.wipe()  # the last run was interrupted before its report
            return self._short("done", layout)
        readiness.assure_layout(self._settings.topics, self._after.topics.partitions, layout)
        await readiness.assure_topics(self._ground, layout)
        await readiness.assure_stopped(self._ground)
        if layout is None or layout.stage not in ("copying", "switching"):
            layout = await self._begin()
        else:
            layout = await self._note(layout)  # from here on, writes of an earlier run do not count
        with self._timed("restore"):
            await self._seal()
        if not layout.forwards:  # the seals have fenced all workers, so the topic has its last forward
            layout = await self._note(layout, forwards=await forwards.ends(self._ground))
        with self._timed("survey"):
            moves, survey = self._look()
        left = await forwards.waiting(self._ground, layout.forwards, moves)
        if layout.stage == "copying":
            layout = await self._copy(layout, moves, survey)
            with self._timed("check"):
                await check(self._ground, moves, survey)
            layout = await self._note(layout, stage="switching")
        else:
            await self._ground.after.read("the new changelog restored")
        with self._timed("switch"):
            await switch(self._ground, left)
        await self._note(layout, stage="done")
        self._ground.wipe()
        return self._report("done", survey, len(left))

    async def look(self) -> RunReport:
        """Return the plan. Writes only databases of its own."""
        hindrances: list[str] = []
        readiness.assure_number(self._settings, self._after.topics.partitions)
        readiness.assure_layout(self._settings.topics, self._after.topics.partitions, self._layout)
        for hindrance in (
            readiness.assure_topics(self._ground, self._layout),
            readiness.assure_stopped(self._ground),
        ):
            try:
                await hindrance
            except NotReady as error:
                hindrances.append(str(error))
        with self._timed("restore"):
            await self._ground.before.read("the changelog restored")
        with self._timed("survey"):
            moves, survey = self._look()
        left: list[forwards.WaitingForward] = []
        try:
            self._assure_whole()
            left = await forwards.waiting(self._ground, await forwards.ends(self._ground), moves)
        except NotReady as error:
            hindrances.append(str(error))
        report = self._report("not ready" if hindrances else "ready", survey, len(left))
        report.hindrances = hindrances
        self._ground.wipe()
        return report

    async def abandon(self) -> RunReport:
        """Restore the state from before the change.

        Raises NotReady if no change has begun, or if the new changelog is valid already.
        """
        layout = self._layout
        if layout is None or layout.stage in ("done", "abandoned"):
            raise NotReady("no repartition has begun, so there is nothing to abandon.")
        if layout.stage == "switching":
            msg = f"the new changelog is complete and checked. Run `faust -A app repartition --to {layout.after}`."
            raise NotReady(msg)
        readiness.assure_layout(self._settings.topics, layout.after, layout)
        layout = await self._note(layout)
        for number in self._ground.before.numbers:
            await self._ground.before.unseal(number)
        for topic in (self._after.topics.changelog, self._after.topics.forwards):
            if not await self._delete(topic):
                say(f"topic {topic} could not be deleted. Delete it before you start again")
        await self._note(layout, stage="abandoned")
        self._ground.wipe()
        return self._short("abandoned", layout)

    # stages ----------------------------------------------------------------------------------------------------------
    async def _begin(self) -> Layout:
        """Restore the changelog, check that the change is possible, and write the layout, so that no worker starts."""
        self._ground.wipe()
        with self._timed("restore"):
            await self._ground.before.read("the changelog restored")
        self._assure_whole()
        readiness.assure_numbers(self._ground.before.stores)
        await self._ground.topics.create_layout()
        layout = Layout(
            stage="copying",
            before=self._settings.topics.partitions,
            after=self._after.topics.partitions,
            changelog_before=self._settings.topics.changelog,
            changelog=self._after.topics.changelog,
            began_ms=Clock.wall_ms(),
            inputs=sorted(self._settings.topics.inputs),
        )
        layout = await self._note(layout)
        await readiness.assure_stopped(self._ground)  # a worker may have started before it could see the layout
        return layout

    async def _seal(self) -> None:
        """Seal the old changelog, which is then final.

        Raises NotReady if it is incomplete, after removing the seals.
        """
        for number in self._ground.before.numbers:
            await self._ground.before.seal(number, self._after.topics.changelog)
        try:
            self._assure_whole()
        except NotReady:
            await self.abandon()
            raise

    def _assure_whole(self) -> None:
        cut_off = forwards.ahead(self._ground.before)
        if cut_off:
            raise NotReady(forwards.cut_off(self._ground.before, cut_off))

    def _look(self) -> tuple[Moves, Survey]:
        inputs, partitions = self._settings.topics.inputs, self._after.topics.partitions
        result = survey(self._ground.before.stores, Moves(inputs, partitions, {}), "rows read")
        return Moves(inputs, partitions, result.numbers), result

    async def _copy(self, layout: Layout, moves: Moves, survey: Survey) -> Layout:
        """Write the new changelog, and record the progress in the layout; return the layout."""
        topics = self._ground.topics
        await topics.create_like(
            self._after.topics.changelog, self._after.topics.partitions, self._settings.topics.changelog
        )
        await topics.create_like(
            self._after.topics.forwards, self._after.topics.partitions, self._settings.topics.forwards
        )
        copy = ChangelogCopy(self._ground, moves, survey)

        async def note(due_ms: int) -> None:
            nonlocal layout
            layout = await self._note(layout, copied_to_ms=due_ms)

        with self._timed("copy"):
            await copy.fence()
            await copy.rows(layout.copied_to_ms, note)
            await copy.rest()
        return layout

    # reports ---------------------------------------------------------------------------------------------------------
    async def _note(self, layout: Layout, **changed: object) -> Layout:
        self._layout = layout = msgspec.structs.replace(layout, **changed, run=self._run)
        await layouts.write(self._settings.topics, self._ground.sender, layout, Clock.wall_ms())
        return layout

    async def _delete(self, topic: str) -> bool:
        try:
            return await self._ground.topics.delete(topic)
        except Exception:  # noqa: BLE001 - the caller reports any failure
            return False

    @staticmethod
    def _short(state: str, layout: Layout) -> RunReport:
        holds = layout.changelog if state == "done" else layout.changelog_before
        return RunReport(state=state, before=layout.before, after=layout.after, changelog=holds)

    def _report(self, state: str, survey: Survey, under_way: int) -> RunReport:
        return RunReport(
            state=state,
            before=self._settings.topics.partitions,
            after=self._after.topics.partitions,
            changelog=self._after.topics.changelog,
            rows=survey.rows,
            moved=survey.moved,
            under_way=under_way,
            destinations=dict(sorted(survey.destinations.items())),
            partitions=[survey.homes[number] for number in self._ground.after.numbers],
            seconds=self._seconds,
        )

    @contextlib.contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        began_ms = Clock.monotonic_ms()
        say(f"{stage} …")
        yield
        self._seconds[stage] = self._seconds.get(stage, 0.0) + (Clock.monotonic_ms() - began_ms) / 1_000
