"""ddm-cluster --method against scikit-learn, on points in a .npy: the same clusters up to their numbers, the same measures of quality."""
import json
import os
import struct
import subprocess
import tempfile

from peers import BUILD, SEED, case


def cluster(x, *args, labels=None, report=True):
    """The clusters of the rows of x, and the report. The pictures are blank: features are the rows."""
    import numpy as np

    with tempfile.TemporaryDirectory() as dir:
        pictures = os.path.join(dir, "blank-images-idx3-ubyte")
        with open(pictures, "wb") as f:
            f.write(struct.pack(">IIII", 0x803, len(x), 1, 1) + bytes(len(x)))
        if labels is not None:
            with open(os.path.join(dir, "blank-labels-idx1-ubyte"), "wb") as f:
                f.write(struct.pack(">II", 0x801, len(x)) + bytes(int(v) for v in labels))
        np.save(os.path.join(dir, "x.npy"), x.astype(np.float32))
        r = subprocess.run([os.path.join(BUILD, "ddm-cluster"), "-q", "--features", "x.npy", "--seed", str(SEED), "--report", "r.json", "-o",
                            "t.tsv", *[str(a) for a in args], pictures], cwd=dir, capture_output=True, text=True)
        assert r.returncode == 0, r.stderr
        rows = [line.split("\t") for line in open(os.path.join(dir, "t.tsv")) if line[0] != "#"]
        return np.array([int(row[1]) for row in rows]), json.load(open(os.path.join(dir, "r.json")))


def same(a, b):
    """None, or how many points two partitions put differently: the numbers of the clusters do not count."""
    from sklearn.metrics import adjusted_rand_score

    pairs = len(set(zip(a.tolist(), b.tolist())))
    if pairs == len(set(a.tolist())) == len(set(b.tolist())):
        return None
    return "the clusters differ: adjusted Rand index %.6f" % adjusted_rand_score(a, b)


def normals(n, d, blobs, spread):
    import numpy as np

    rng = np.random.default_rng(SEED)
    return (rng.normal(size=(blobs, d))[rng.integers(blobs, size=n)] * spread + rng.normal(size=(n, d))).astype(np.float32)


def linkage(name):
    def run():
        import numpy as np
        from sklearn.cluster import AgglomerativeClustering

        for n, d, blobs, k, spread in (400, 5, 6, 6, 3), (701, 33, 4, 17, 1), (300, 2, 1, 300, 1), (50, 3, 2, 1, 1):
            x = normals(n, d, blobs, spread)
            tree = AgglomerativeClustering(n_clusters=k, linkage=name, compute_distances=True).fit(x.astype(float))
            ours, report = cluster(x, "-k", k, "--method", name)
            wrong = same(ours, tree.labels_)
            if wrong:
                return "%d points, %d clusters: %s" % (n, k, wrong)
            heights = np.array(report["method"]["heights"])
            off = np.abs(np.sort(tree.distances_)[-len(heights):] / heights - 1).max()
            if off > 1e-8:  # the report holds nine digits
                return "%d points: heights differ by %g of their size" % (n, off)
    return run


def spectral():
    """scikit-learn counts a point among its own neighbours."""
    from sklearn.cluster import SpectralClustering
    from sklearn.datasets import make_circles, make_moons

    for name, (x, truth), k, near in (("moons", make_moons(600, noise=.05, random_state=SEED), 2, 10),
                                      ("noisy moons", make_moons(900, noise=.11, random_state=SEED), 2, 15),
                                      ("circles", make_circles(700, noise=.05, factor=.5, random_state=SEED), 2, 10),
                                      ("blobs", (normals(500, 8, 5, 4), None), 5, 12)):
        ours, report = cluster(x, "-k", k, "--method", "spectral", "--neighbours", near - 1, "--restarts", 10)
        theirs = SpectralClustering(k, affinity="nearest_neighbors", n_neighbors=near, random_state=SEED, n_init=10,
                                    eigen_tol=1e-10).fit(x.astype("f4").astype(float))
        wrong = same(ours, theirs.labels_) or (truth is not None and name != "noisy moons" and same(ours, truth))
        if wrong:
            return "%s, %d pieces: %s" % (name, report["method"]["pieces"], wrong)


def off(name, got, want):
    """None, or the two numbers if they differ by more than 1e-6 (relative, absolute below 1)."""
    return None if abs(got - want) <= 1e-6 * max(1, abs(want)) else "%s is %.9g, not %.9g" % (name, got, want)


def quality():
    from sklearn.metrics import (adjusted_rand_score, calinski_harabasz_score, davies_bouldin_score, normalized_mutual_info_score,
                                 silhouette_samples, silhouette_score)

    for n, d, blobs, k, spread in (700, 12, 5, 5, 2), (300, 3, 3, 40, .5), (90, 40, 2, 2, 9):
        x = normals(n, d, blobs, spread)
        labels = (abs(x[:, 0]) * 3).astype(int) % 7
        ours, report = cluster(x, "-k", k, "--against", "class", "--silhouette", 0, labels=labels)
        z = x.astype(float)
        samples = silhouette_samples(z, ours)
        wrong = (off("silhouette", report["silhouette"], silhouette_score(z, ours))
                 or off("Davies-Bouldin", report["davies_bouldin"], davies_bouldin_score(z, ours))
                 or off("Calinski-Harabasz", report["calinski_harabasz"], calinski_harabasz_score(z, ours))
                 or off("adjusted Rand", report["against"]["adjusted_rand"], adjusted_rand_score(labels, ours))
                 or off("mutual information", report["against"]["normalised_mutual_information"], normalized_mutual_info_score(labels, ours)))
        for c in range(k):
            wrong = wrong or off("silhouette of cluster %d" % c, report["clusters"][c]["silhouette"], samples[ours == c].mean())
        if wrong:
            return "%d points, %d clusters: %s" % (n, k, wrong)


def seeds():
    """The agreement of three seeds is that of three runs with these seeds, each compared with each."""
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    x = normals(500, 6, 4, 1)
    runs = [cluster(x, "-k", 7, "--restarts", 1, "--seed", SEED + i)[0] for i in range(3)]
    got = cluster(x, "-k", 7, "--restarts", 1, "--seeds", 3)[1]["seeds"]
    pairs = [(runs[i], runs[j]) for i in range(3) for j in range(i)]
    rand = [adjusted_rand_score(a, b) for a, b in pairs]
    information = [normalized_mutual_info_score(a, b) for a, b in pairs]
    return (off("mean adjusted Rand", got["adjusted_rand"], sum(rand) / 3) or off("lowest", got["adjusted_rand_least"], min(rand))
            or off("mean information", got["normalised_mutual_information"], sum(information) / 3)
            or off("lowest", got["normalised_mutual_information_least"], min(information)))


def spherical():
    """k-means of normalised rows whose centres are normalised after each mean, the best of twenty starts of scikit-learn's k-means++."""
    import numpy as np
    from sklearn.cluster import kmeans_plusplus

    def unit(a):
        return a / np.linalg.norm(a, axis=1, keepdims=True)

    for n, d, blobs, k, spread in (600, 12, 5, 5, 2), (500, 6, 4, 4, 2), (90, 40, 2, 2, 3):
        x = normals(n, d, blobs, spread) * np.random.default_rng(SEED + 1).uniform(.01, 50, size=(n, 1)).astype(np.float32)
        z, best = unit(x.astype(float)), None
        for start in range(20):
            centres, labels = kmeans_plusplus(z, k, random_state=start)[0], None
            while True:
                last, labels = labels, (z @ centres.T).argmax(1)
                if last is not None and (last == labels).all():
                    break
                centres = unit(np.stack([z[labels == c].mean(0) for c in range(k)]))
            inertia = 2 * (n - (z * centres[labels]).sum())
            if best is None or inertia < best[0]:
                best = inertia, labels
        ours, report = cluster(x, "-k", k, "--distance", "cosine", "--restarts", 20)
        wrong = same(ours, best[1]) or off("inertia", report["inertia"], best[0])
        if wrong:
            return "%d points, %d clusters: %s" % (n, k, wrong)
        if same(ours, cluster(x, "-k", k, "--restarts", 20)[0]) is None:
            return "%d points: the clusters by l2 are the same, and the case shows nothing" % n


NEEDS = ["numpy", "sklearn"]
case("Ward linkage: scikit-learn", NEEDS, linkage("ward"))
case("average linkage: scikit-learn", NEEDS, linkage("average"))
case("spectral clustering of moons, circles and blobs: scikit-learn", NEEDS, spectral)
case("spherical k-means: normalised rows and centres from scikit-learn's starts", NEEDS, spherical)
case("silhouette, Davies-Bouldin, Calinski-Harabasz, adjusted Rand, mutual information: scikit-learn", NEEDS, quality)
case("agreement of seeds: scikit-learn", NEEDS, seeds)
