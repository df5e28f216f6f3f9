/* Checks that experts and router belong to one partition, and each to its folder. */
#include "diffusion/membership.h"

#include <stdio.h>
#include <string.h>

#include "core/extends.h"
#include "core/names.h"

static int check_clusters(struct membership *m, const char *dir, const char *name, const struct model_config *c, struct err *e)
{
	if (!c->clusters)
		return 0;
	if (!m->clusters) {
		m->clusters = c->clusters;
		snprintf(m->clusters_by, sizeof m->clusters_by, "%s", name);
	}
	if (m->clusters == c->clusters)
		return 0;
	return err_set(e, ERR_DATA, "%s: %s was trained on a partition into %lld clusters, but %s on one into %lld: they do not belong together", dir,
	               m->clusters_by, (long long)m->clusters, name, (long long)c->clusters);
}

static int check_partition(struct membership *m, const char *dir, const char *name, const struct model_config *c, struct err *e)
{
	if (!*c->partition)
		return 0;
	if (!*m->partition) {
		memcpy(m->partition, c->partition, sizeof m->partition);
		snprintf(m->partition_by, sizeof m->partition_by, "%s", name);
	}
	if (!strcmp(m->partition, c->partition))
		return 0;
	return err_set(e, ERR_DATA, "%s: %s was trained on partition %.16s, but %s on partition %.16s: their clusters differ", dir, m->partition_by,
	               m->partition, name, c->partition);
}

/* The router was trained before the partition was extended by the clusters of `name`. */
static int lacks_clusters(const char *dir, const char *router, int64_t had, const char *name, int64_t clusters, struct err *e)
{
	return err_set(e, ERR_DATA,
	               "%s: %s was trained on a partition into %lld clusters, which the partition of %s extends to %lld: train the router again "
	               "(ddm-route-train --from)",
	               dir, router, (long long)had, name, (long long)clusters);
}

/* Take over the partition of c, which extends that of the networks before. */
static void take_extension(struct membership *m, const char *name, const struct model_config *c)
{
	m->clusters = c->clusters;
	memcpy(m->partition, c->partition, sizeof m->partition);
	json_decref(m->extends);
	m->extends = json_incref(c->extends);
	snprintf(m->clusters_by, sizeof m->clusters_by, "%s", name);
	snprintf(m->partition_by, sizeof m->partition_by, "%s", name);
}

/* Check the data that a network of a part of it was trained on. */
static int check_data(struct membership *m, const char *dir, const char *name, const struct model_config *c, struct err *e)
{
	int router = net_is_classifier(&c->net);

	if (*c->partition && extends_has(m->extends, c->partition, c->clusters))
		return router ? lacks_clusters(dir, name, c->clusters, m->partition_by, m->clusters, e) : 0;
	if (*m->partition && extends_has(c->extends, m->partition, m->clusters)) {
		if (*m->router)
			return lacks_clusters(dir, m->router, m->clusters, name, c->clusters, e);
		take_extension(m, name, c);
	}
	if (check_clusters(m, dir, name, c, e) || check_partition(m, dir, name, c, e))
		return -1;
	if (!m->extends)
		m->extends = json_incref(c->extends);
	if (router)
		snprintf(m->router, sizeof m->router, "%s", name);
	return 0;
}

static int check_names(struct membership *m, const char *dir, const char *name, const struct model_config *c, struct err *e)
{
	if (!c->class_names)
		return 0;
	if (!m->class_names) {
		m->class_names = json_incref(c->class_names);
		snprintf(m->names_by, sizeof m->names_by, "%s", name);
	}
	for (int64_t i = 0; i < (int64_t)json_array_size(c->class_names); i++) {
		const char *a = names_get(m->class_names, i), *b = names_get(c->class_names, i);

		if (a && b && strcmp(a, b))
			return err_set(e, ERR_DATA, "%s: class %lld is \"%s\" in config.json of %s, but \"%s\" in that of %s", dir, (long long)i, a,
			               m->names_by, b, name);
	}
	return 0;
}

int membership_add(struct membership *m, const char *dir, const char *name, int number, const struct model_config *c, struct err *e)
{
	int own = net_is_classifier(&c->net) || c->cluster >= 0;

	if (number >= 0 && !net_is_classifier(&c->net) && c->cluster >= 0 && c->cluster != number && c->range.to == 0)
		return err_set(e, ERR_DATA,
		               "%s/%s: the folder's name says cluster %d, but its config.json says that the expert was trained on cluster %lld: "
		               "rename it to expert_%lld",
		               dir, name, number, (long long)c->cluster, (long long)c->cluster);
	if (own && check_data(m, dir, name, c, e))
		return -1;
	return check_names(m, dir, name, c, e);
}

void membership_release(struct membership *m)
{
	json_decref(m->extends);
	json_decref(m->class_names);
	*m = (struct membership){0};
}
