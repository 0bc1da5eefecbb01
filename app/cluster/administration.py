"""The verbs of `app.administration`, answered by a RocketMQ cluster."""

from app.administration import Administration
from app.cluster.catalog import ClusterCatalog
from app.cluster.census import ClusterCensus
from app.cluster.verbs.group_lists import ClusterGroupLists
from app.cluster.verbs.part import not_supported
from app.cluster.verbs.topic_lists import ClusterTopicLists
from engine.broker import Broker


class ClusterAdministration(ClusterTopicLists, ClusterGroupLists, Administration):
    """`Administration` of the cluster whose catalog a started `ClusterMessaging` has."""

    def __init__(self, catalog: ClusterCatalog) -> None:
        census = ClusterCensus(catalog)
        ClusterTopicLists.__init__(self, catalog, census)
        ClusterGroupLists.__init__(self, catalog, census, self)

    @property
    def _engine(self) -> Broker:
        raise not_supported("has no such verb", field="engine", remedy="use the cluster's tools")
